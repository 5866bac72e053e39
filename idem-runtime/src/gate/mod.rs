//! Gates: fast memories of finished actions, in front of a store.
//!
//! A gate may only save work. What it remembers is told to it after COMMIT, so that a hit can be trusted; what it does not
//! know, or cannot say in time, the store decides. A gate never fails a delivery and never loses one.

use crate::key::Key;
use std::{fmt, future::Future, pin::Pin, time::Duration, time::SystemTime};

/// What the methods of a gate return.
pub type GateFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A fast memory of finished actions.
///
/// No method reports an error: a gate that is in trouble says so in the log, once, and answers [`Look::Unknown`], so that
/// the store decides. Futures may be dropped at any await.
pub trait Gate: Send + Sync + fmt::Debug + 'static {
    /// What is known of an action.
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look>;

    /// Remembers a finished action, for at most so long. Called after COMMIT and never before.
    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()>;

    /// Marks that `owner` begins an action. Answers when another owner's mark expires, if there is one.
    ///
    /// A mark is advice: it sends other deliveries away for a while, as busy. It expires by itself.
    fn begin<'a>(&'a self, key: &'a Key, owner: &'a str) -> GateFuture<'a, Option<Duration>> {
        let _ = (key, owner);
        Box::pin(std::future::ready(None))
    }

    /// Takes the mark of `owner` away, and nobody else's.
    fn release<'a>(&'a self, key: &'a Key, owner: &'a str) -> GateFuture<'a, ()> {
        let _ = (key, owner);
        Box::pin(std::future::ready(()))
    }

    /// Forgets an action, because the store knows nothing of it.
    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()>;
}

/// What a gate knows of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is finished, and was committed.
    Finished(Finished),
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
