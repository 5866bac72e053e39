//! Reconciliation: work that was begun and is not done.

use super::ledger::{Ledger, Query};
use crate::{
    error::ClaimError,
    store::{Connection, LeaseRow, NOBODY, Store},
};
use std::{
    fmt,
    future::IntoFuture,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Work that was begun under a lease and is not done: its owner crashed, was cancelled or failed, and nobody has run it
/// again since.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Which handler.
    pub scope: String,
    /// Which fact, as [`Key::text`](crate::Key::text).
    pub key: String,
    /// The delivery that began it last, if its handler names deliveries.
    pub delivery_id: Option<String>,
    /// The message, where its handler keeps it.
    pub message: Option<String>,
    /// When it was begun for the first time, by the clock of the place that keeps the lease.
    pub begun_at: SystemTime,
    /// When its lease ran out, or it was given back.
    pub lease_until: SystemTime,
    /// How often it was begun.
    pub attempts: u64,
    /// The fencing token of its last owner.
    pub fence: u64,
    /// Whether its last owner said that it failed or declined. Else it ended without a word, and nobody knows whether the
    /// work happened.
    pub given_back: bool,
}

impl Unfinished {
    /// What the body gave to the provider; see
    /// [`AtLeastOnceLease::idempotency_key`](crate::AtLeastOnceLease::idempotency_key).
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        super::provider_key::provider_key(&self.scope, &self.key)
    }

    fn new(row: LeaseRow) -> Self {
        Self {
            given_back: row.attempt == NOBODY,
            scope: row.scope,
            key: row.key,
            delivery_id: row.delivery_id,
            message: row.message,
            begun_at: row.begun_at.into(),
            lease_until: row.lease_until.into(),
            attempts: u64::try_from(row.attempts).unwrap_or(0),
            fence: u64::try_from(row.fence).unwrap_or(0),
        }
    }
}

/// What became of unfinished work, as somebody found out: by asking the provider, for example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// It happened. Deliveries of it are repeats from now on.
    Done,
    /// It did not happen. The next delivery runs it, and an owner that is still at it cannot complete it any more. It is
    /// listed again once it has been left alone for so long.
    GiveBack,
}

/// A question for unfinished work: `.await` it. See [`Store::unfinished`].
#[must_use = "nothing is asked until it is awaited"]
pub struct UnfinishedWork {
    ledger: Arc<dyn Ledger>,
    query: Query,
}

impl UnfinishedWork {
    pub(super) fn new(ledger: Arc<dyn Ledger>, older_than: Duration) -> Self {
        Self { ledger, query: Query { older_than, after: None, limit: 100 } }
    }

    /// At most so many, 100 by default and at most 10,000.
    pub fn limit(mut self, limit: u32) -> Self {
        self.query.limit = limit.clamp(1, 10_000);
        self
    }

    /// Goes on behind the last of an earlier answer.
    pub fn after(mut self, last: &Unfinished) -> Self {
        self.query.after = Some((last.scope.clone(), last.key.clone()));
        self
    }
}

impl IntoFuture for UnfinishedWork {
    type Output = Result<Vec<Unfinished>, ClaimError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let rows = self.ledger.unfinished(&self.query).await?;
            Ok(rows.into_iter().map(Unfinished::new).collect())
        })
    }
}

impl fmt::Debug for UnfinishedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfinishedWork").field("query", &self.query).finish_non_exhaustive()
    }
}

pub(super) async fn resolve(
    ledger: &dyn Ledger,
    work: &Unfinished,
    resolution: Resolution,
) -> Result<bool, ClaimError> {
    let fence = i64::try_from(work.fence).unwrap_or(i64::MAX);
    ledger.resolve(&work.scope, &work.key, fence, resolution).await
}

impl<C: Connection> Store<C> {
    /// Work that was begun under a lease, is not done, and whose lease ran out longer ago than `older_than`, by the
    /// database's clock; in the order of scope and key.
    ///
    /// Run it from time to time, with `older_than` longer than a redelivery takes: what is still there then needs somebody
    /// to find out what became of it, and [`resolve`](Self::resolve). It reads the whole table of leases.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn example(store: &idem_runtime::PgStore) -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn was_sent(_: &str) -> Result<bool, std::io::Error> { Ok(true) }
    /// use idem_runtime::Resolution;
    /// use std::time::Duration;
    ///
    /// for work in store.unfinished(Duration::from_secs(3600)).limit(500).await? {
    ///     let sent = was_sent(&work.idempotency_key()).await?;
    ///     store.resolve(&work, if sent { Resolution::Done } else { Resolution::GiveBack }).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Awaited: [`ClaimError`], its cases of the database, its set-up and busy.
    ///
    /// # Cancel safety
    /// It may be dropped at any await.
    pub fn unfinished(&self, older_than: Duration) -> UnfinishedWork {
        UnfinishedWork::new(Arc::new(self.clone()), older_than)
    }

    /// Settles unfinished work. `false`, and nothing changes, when somebody has begun it again since it was read (or it is
    /// done, or purged).
    ///
    /// # Errors
    /// [`ClaimError`], its cases of the database, its set-up and busy.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: it is settled or not.
    pub async fn resolve(&self, work: &Unfinished, resolution: Resolution) -> Result<bool, ClaimError> {
        resolve(self, work, resolution).await
    }
}
