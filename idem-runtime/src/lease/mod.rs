//! Leases: work outside the database, at least once.
//!
//! ```text
//!   begin ──── done ─────────────────────────────────► Outcome::Duplicate
//!     │ └───── somebody is at it, its lease runs ────► Busy::InProgress { retry_after }
//!     ▼ never begun, or its lease ran out: fence + 1
//!   body ───── Err ─► give back ─────────────────────► Error::Body; the next delivery runs at once
//!     │  └──── crash, panic, dropped ────────────────► the lease runs out; then the next delivery runs
//!     ▼ Ok     (the lease is renewed meanwhile)
//!   complete ─ somebody has taken over ──────────────► Error::LeaseLost
//!     ▼
//!   Outcome::First
//! ```
//!
//! Each step is one statement, durable by itself. No transaction is open and no connection is held while the body runs.

mod begin;
mod heartbeat;
mod held;
mod ledger;
mod provider_key;
#[cfg(feature = "redis")]
mod redis;
mod sql;
mod unfinished;

pub use self::held::{AtLeastOnceLease, HeldLease};
#[cfg(feature = "redis")]
pub use self::redis::RedisLeases;
pub use self::unfinished::{Resolution, Unfinished, UnfinishedWork};

use crate::{
    error::ClaimError,
    key::IntoKey,
    outcome::Seen,
    store::{Connection, Store},
};
use std::{sync::Arc, time::Duration};

/// What an attempt to begin work came to.
#[derive(Debug)]
#[must_use = "work that is begun and not completed runs again when its lease has run out"]
pub enum Begun {
    /// It is yours: run the body, then complete it or give it back. First that is known of: an earlier owner that ended
    /// without a word may have done it ([`AtLeastOnceLease::attempts`]).
    First(HeldLease),
    /// It is done: do not run the body.
    Duplicate(Seen),
}

/// A place that keeps leases: a [`Store`], or (feature `redis`) `RedisLeases`.
///
/// For work that no transaction can take back: an SMS, a call over HTTP. The place remembers who is at it, so that one
/// delivery at a time works on an action and a finished one is not repeated. It **cannot** make the work happen exactly
/// once: after a crash nobody knows whether it happened, and the next delivery runs it again. That is at least once, and
/// the type that the body gets says so: [`AtLeastOnceLease`]. Work that is a write in the store's own database belongs in a
/// unit, which has no such window.
///
/// `#[idempotent(.., lease = "30s")]` calls it. By hand:
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # mod example {
/// use idem_runtime::{AtLeastOnceLease, Begun, Error, Key, Leases, Outcome, SqliteStore};
/// use std::time::Duration;
///
/// async fn send(_: &AtLeastOnceLease) -> Result<&'static str, std::io::Error> {
///     Ok("sent")
/// }
///
/// async fn send_once(leases: &impl Leases, order_no: &str) -> Result<Outcome<&'static str>, Error<std::io::Error>> {
///     let key = Key::scope("sms.paid").part(order_no).finish();
///     let held = match leases.begin(key, Duration::from_secs(30)).await? {
///         Begun::First(held) => held,
///         Begun::Duplicate(seen) => return Ok(Outcome::Duplicate(seen)),
///     };
///     match send(held.lease()).await {
///         Ok(value) => held.complete(value).await,
///         Err(error) => held.give_back(error).await,
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = SqliteStore::connect("sqlite::memory:").await?;
/// store.migrate().await?;
/// assert_eq!(send_once(&store, "A1001").await?, Outcome::First("sent"));
/// assert!(send_once(&store, "A1001").await?.is_duplicate());
/// # Ok(())
/// # }
/// # }
/// # #[cfg(feature = "sqlite")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { example::main() }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps no leases",
    label = "with `lease = \"..\"` the parameter named by `store` is a store, or `RedisLeases`",
    note = "pass `&Store<..>`; for leases in Redis enable the feature `redis` of idem-runtime and pass `&RedisLeases`"
)]
pub trait Leases: sealed::Sealed + Send + Sync {
    /// Begins an action's work under a lease, which is renewed in the background until the work has ended.
    ///
    /// The lease, 1 second to 1 day, is how long others wait after a crash. It need not cover the work: a third of it must
    /// be enough to reach the store. On a runtime of one thread a body that blocks stops the renewal; use
    /// `tokio::task::spawn_blocking` there, or a lease that covers the work. The same holds for bodies that block every
    /// thread of a runtime, and for runtimes other than tokio, where nothing is renewed.
    ///
    /// # Errors
    /// [`ClaimError::Key`]; [`ClaimError::Busy`] with [`Busy::InProgress`](crate::Busy::InProgress) while another delivery
    /// is at it; [`ClaimError::PayloadMismatch`], also while another delivery is at it; [`ClaimError::Configuration`];
    /// [`ClaimError::Database`] or [`ClaimError::Redis`].
    ///
    /// # Cancel safety
    /// The future may be dropped at any await. What it may have begun is given back in the background; when that fails too,
    /// the next delivery waits for the lease to run out.
    fn begin(&self, key: impl IntoKey, lease: Duration) -> impl Future<Output = Result<Begun, ClaimError>> + Send;
}

mod sealed {
    pub trait Sealed {}
}

impl<C: Connection> sealed::Sealed for Store<C> {}

impl<C: Connection> Leases for Store<C> {
    fn begin(&self, key: impl IntoKey, lease: Duration) -> impl Future<Output = Result<Begun, ClaimError>> + Send {
        begin::begin(Arc::new(self.clone()), key.into_key(), lease)
    }
}

impl<L: Leases + ?Sized> sealed::Sealed for &L {}

impl<L: Leases + ?Sized> Leases for &L {
    fn begin(&self, key: impl IntoKey, lease: Duration) -> impl Future<Output = Result<Begun, ClaimError>> + Send {
        L::begin(self, key, lease)
    }
}

impl<L: Leases + ?Sized> sealed::Sealed for Arc<L> {}

impl<L: Leases + ?Sized> Leases for Arc<L> {
    fn begin(&self, key: impl IntoKey, lease: Duration) -> impl Future<Output = Result<Begun, ClaimError>> + Send {
        L::begin(self, key, lease)
    }
}
