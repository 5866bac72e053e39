//! Gates: fast memories of finished actions, in front of a store.
//!
//! A gate may only save work. What it remembers is told to it after COMMIT, so that a hit can be trusted; what it does not
//! know, or cannot say in time, the store decides. A gate never fails a delivery, never loses one, and never makes a
//! duplicate of what is none.
//!
//! | gate | remembers | feature |
//! | --- | --- | --- |
//! | `MemoryGate` | in the process | `gate-memory` |
//! | `RedisGate` | in Redis, for all processes | `redis`, and `redis-cluster`, `redis-sentinel` |
//! | [`Stacked`] | in two gates, the near one asked first | |
//!
//! **One gate serves one record table.** A gate tells actions apart by scope and key, as a record table does: two tables
//! behind one gate would take one's actions for the other's. Several stores over the same table may share a gate.
//!
//! What has a repeat answered by the gate to do without: [`Seen::first_at`](crate::Seen::first_at) may be `None`. What a
//! gate cannot answer it leaves to the store: a stored result (`replay`), and a payload that differs.

mod front;
mod health;
#[cfg(feature = "gate-memory")]
mod memory;
#[cfg(any(feature = "gate-memory", feature = "redis"))]
mod name;
#[cfg(feature = "redis")]
mod redis;
mod stacked;

#[cfg(feature = "redis")]
pub use self::redis::RedisGate;
pub(crate) use front::Front;
#[cfg(feature = "gate-memory")]
pub use memory::MemoryGate;
pub use stacked::Stacked;

use crate::key::Key;
use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration, time::SystemTime};

/// What the methods of a gate return.
pub type GateFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A fast memory of finished actions.
///
/// No method reports an error: a gate that is in trouble says so in the log, once, and answers [`Look::Unknown`], so that
/// the store decides. A store waits for a gate for at most one second, and takes a gate that panics for one that does not
/// answer; after either it leaves the gate alone for a second.
///
/// # Cancel safety
/// Futures may be dropped at any await; what they asked for may have happened or not.
pub trait Gate: Send + Sync + fmt::Debug + 'static {
    /// What is known of an action.
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look>;

    /// Remembers a finished action, for at most so long: its record is not sure to be there afterwards. Called after
    /// COMMIT and never before.
    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()>;

    /// Marks that an action begins, unless another mark is there. By default there are no marks.
    ///
    /// A mark is advice: it sends other deliveries away for a while, as busy. It expires by itself.
    fn begin<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, Begin> {
        let _ = (key, mine);
        Box::pin(std::future::ready(Begin::Go))
    }

    /// Takes this mark away, and nobody else's, and nothing that is remembered.
    fn release<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, ()> {
        let _ = (key, mine);
        Box::pin(std::future::ready(()))
    }

    /// Forgets an action, because the store knows nothing of it.
    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()>;
}

impl<G: Gate + ?Sized> Gate for Arc<G> {
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look> {
        (**self).look(key)
    }

    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()> {
        (**self).remember(key, finished, keep)
    }

    fn begin<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, Begin> {
        (**self).begin(key, mine)
    }

    fn release<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, ()> {
        (**self).release(key, mine)
    }

    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()> {
        (**self).forget(key)
    }
}

/// What a gate knows of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is finished, and was committed.
    Finished {
        /// What is remembered of it.
        finished: Finished,
        /// For how long it may still be remembered.
        left: Duration,
    },
    /// Nothing. The store decides.
    Unknown,
}

/// A finished action, as a gate remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Finished {
    /// When it was claimed, by the database's clock, in milliseconds since the Unix epoch; `None` when the gate was told
    /// right after COMMIT.
    pub first_at: Option<i64>,
    /// The delivery that did it.
    pub delivery_id: Option<String>,
    /// The fingerprint of its payload.
    pub fingerprint: Option<Vec<u8>>,
    /// Its record holds a result, which only the store can give.
    pub has_result: bool,
}

impl Finished {
    pub(crate) fn first_at(&self) -> Option<SystemTime> {
        let millis = u64::try_from(self.first_at?).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))
    }
}

/// An action in flight, as a gate marks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Whose mark it is: a text of one attempt at a unit, without blanks.
    pub owner: String,
    /// The fingerprint of the payload.
    pub fingerprint: Option<Vec<u8>>,
}

/// What a gate answers to a delivery that would begin an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Go on: no other mark is there, or none is known of.
    Go,
    /// Another delivery of the action is running.
    Taken {
        /// Its mark.
        by: InFlight,
        /// When the mark expires, if it ends without a word.
        retry_after: Duration,
    },
}
