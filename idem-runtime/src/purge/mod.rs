//! The purge: records whose time is over are deleted, in small batches, beside live traffic.

mod background;
mod run;

pub use background::{Every, Purger};

use crate::{
    error::ConfigurationError,
    retention::Retention,
    store::{Connection, Store},
};
use std::{
    fmt,
    pin::Pin,
    time::{Duration, SystemTime},
};

/// Any error of an archive hook.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Archiving<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;
type Told<'a> = Box<dyn FnMut(&Progress) + Send + 'a>;
type Archive<'a> = Box<dyn FnMut(Vec<Archived>) -> Archiving<'a> + Send + 'a>;

/// What a purge does; for [`Store::purge`] and [`Store::start_purger`].
///
/// Numbers that cannot be are bounded, and never an error.
#[must_use = "it says what a purge does; `store.purge(..)` does it"]
pub struct Purge<'a> {
    batch: u32,
    pause: Duration,
    at_most: u64,
    grace: Duration,
    progress: Option<Told<'a>>,
    archive: Option<Archive<'a>>,
}

impl<'a> Purge<'a> {
    /// The largest batch.
    pub const LARGEST_BATCH: u32 = 50_000;

    /// Batches of 2000 rows, 10 milliseconds between them, until nothing is left.
    pub fn new() -> Self {
        Self {
            batch: 2000,
            pause: Duration::from_millis(10),
            at_most: u64::MAX,
            grace: Duration::ZERO,
            progress: None,
            archive: None,
        }
    }

    /// How many rows are deleted in one transaction: 1 to [`LARGEST_BATCH`](Self::LARGEST_BATCH), 2000 by default.
    ///
    /// On SQLite no unit writes while a batch does. With an [`archive`](Self::archive) a batch is held in memory, with
    /// its messages and results.
    pub fn batch(mut self, rows: u32) -> Self {
        self.batch = rows.clamp(1, Self::LARGEST_BATCH);
        self
    }

    /// How long to rest between two batches, 10 milliseconds by default: for other work, and for replicas to follow.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// The most rows that one run deletes, over all tables; no bound by default.
    pub fn at_most(mut self, rows: u64) -> Self {
        self.at_most = rows;
        self
    }

    /// Keeps rows for that much longer than they say; not at all by default, at most [`Retention::MAX`].
    ///
    /// A late repeat is refused until its record is purged, so this is also a way to a longer retention for records
    /// that are written already.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Retention::of(grace).as_duration();
        self
    }

    /// Is told of each batch, once it is committed.
    pub fn progress(mut self, told: impl FnMut(&Progress) + Send + 'a) -> Self {
        self.progress = Some(Box::new(told));
        self
    }

    /// Gets each batch of records, and of finished work under a lease, before it is deleted; an error keeps the batch
    /// and ends the run with [`PurgeError::Archive`]. (One-time tokens are deleted without it: their use is a record.)
    ///
    /// A row is exported at least once: when the database fails after the hook has said Ok, the batch comes again, so
    /// the archive must take a repeat of scope, key and `claimed_at` for what it is. Only rows for which the hook said
    /// Ok are deleted.
    ///
    /// On PostgreSQL, MySQL and MariaDB the rows stay locked while the hook runs, so that no other purge exports them;
    /// a late repeat of one of them waits, and is told "busy" after the store's lock wait. MySQL must be 8.0 or later
    /// and MariaDB 10.6, for SKIP LOCKED. On SQLite, where units would wait for the hook, nothing is locked, and two
    /// purges at once may export a row twice. There the hook may use the store's own pool.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use idem_runtime::{Purge, SqliteStore};
    /// # let store = SqliteStore::connect("sqlite::memory:").await?;
    /// # store.migrate().await?;
    /// # async fn upload(_: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// let purge = Purge::new().archive(|batch| async move {
    ///     for row in &batch {
    ///         upload(&format!("{} {}", row.scope, row.key)).await?;
    ///     }
    ///     Ok(())
    /// });
    /// let purged = store.purge(purge).await?;
    /// assert_eq!(purged.rows(), 0);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))]
    /// # fn main() {}
    /// ```
    pub fn archive<F>(mut self, mut hook: impl FnMut(Vec<Archived>) -> F + Send + 'a) -> Self
    where
        F: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'a,
    {
        self.archive = Some(Box::new(move |batch| Box::pin(hook(batch))));
        self
    }
}

impl Default for Purge<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Purge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purge")
            .field("batch", &self.batch)
            .field("pause", &self.pause)
            .field("at_most", &self.at_most)
            .field("grace", &self.grace)
            .field("archive", &self.archive.is_some())
            .finish_non_exhaustive()
    }
}

/// What a purge deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Purged {
    /// Records.
    pub records: u64,
    /// One-time tokens.
    pub tokens: u64,
    /// Finished work under a lease.
    pub leases: u64,
    /// Counts of deliveries that were never settled.
    pub attempts: u64,
    /// In how many batches that deleted something.
    pub batches: u64,
    /// The longest time that a batch had its transaction open; on servers that includes the archive hook.
    pub longest_batch: Duration,
}

impl Purged {
    /// All rows.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.records + self.tokens + self.leases + self.attempts
    }
}

/// How far a purge is; told after each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How many rows were deleted so far, in all tables.
    pub deleted: u64,
    /// In how many batches.
    pub batches: u64,
    /// How many rows this batch deleted.
    pub rows: u64,
    /// How long this batch had its transaction open.
    pub took: Duration,
}

/// A row that is about to be purged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Archived {
    /// Which handler.
    pub scope: String,
    /// Which business fact, as [`Key`](crate::Key) writes it.
    pub key: String,
    /// The delivery that did it, if its handler names deliveries.
    pub delivery_id: Option<String>,
    /// The message, if its handler keeps it.
    pub message: Option<String>,
    /// When it was claimed, by the database's clock.
    pub claimed_at: SystemTime,
    /// Since when it may be purged.
    pub keep_until: SystemTime,
    /// The body's result as it is stored, if its handler keeps it.
    pub result: Option<Vec<u8>>,
    /// Whether it was done under a lease.
    pub leased: bool,
}

/// Why a purge ended early. What its batches deleted before stays deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PurgeError {
    /// The store is set up wrong, or has no record table.
    #[error("{0}")]
    Configuration(#[source] ConfigurationError),
    /// A lock, or on SQLite the one writer, was not free in several tries.
    #[error("`{table}` stayed locked, {tries} tries long: purge again later, in smaller batches if it happens often")]
    Busy {
        /// The table.
        table: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The archive hook failed. Its batch is not deleted.
    #[error("the archive hook failed, so its rows are kept: {0}")]
    Archive(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database failed.
    #[error("the database failed while purging `{table}`: {source}")]
    Database {
        /// The table.
        table: String,
        /// Whether another run may succeed.
        retryable: bool,
        /// The driver's error.
        source: Box<sqlx::Error>,
    },
}

impl PurgeError {
    /// Whether another run may succeed without a change.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Configuration(ConfigurationError::Connect(_)) | Self::Busy { .. } | Self::Archive(_) => true,
            Self::Configuration(ConfigurationError::Database(error)) => error.is_retryable(),
            Self::Configuration(_) => false,
            Self::Database { retryable, .. } => *retryable,
        }
    }
}

impl<C: Connection> Store<C> {
    /// Deletes what has been kept for long enough, by the database's clock: records, one-time tokens, finished work
    /// under a lease. Work that was begun and not finished stays, however old it is.
    ///
    /// It deletes small batches, each in a short transaction of its own, and rests in between, so units go on meanwhile;
    /// several purges at once are safe and share the work. A table that the application never made is passed over, but for
    /// the record table. Conflicts are tried again.
    ///
    /// Until it is purged a record refuses repeats, and says that they are late; after that a repeat runs again. So the
    /// retention has to cover the longest redelivery: see [`Floor`](crate::Floor).
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_runtime::{Purge, SqliteStore};
    ///
    /// let store = SqliteStore::connect("sqlite::memory:").await?;
    /// store.migrate().await?;
    /// let purged = store.purge(Purge::new().batch(500).at_most(100_000)).await?;
    /// println!("{} records in {} batches", purged.records, purged.batches);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`PurgeError`]. What was deleted before stays deleted.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: the batch in progress is deleted as a whole or not at all, and the next
    /// purge goes on.
    pub async fn purge(&self, purge: Purge<'_>) -> Result<Purged, PurgeError> {
        let mut purge = purge;
        let mut purged = Purged::default();
        run::run(self, &mut purge, &mut purged, &mut run::Stop::never()).await.map(|()| purged)
    }
}
