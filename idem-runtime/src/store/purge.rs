//! What a purge asks of a database.

use super::schema::{Part, Table};
use crate::purge::Archived;
use std::time::Duration;

/// What is said differently to each database to purge a table. The run itself is in `purge`.
///
/// Each batch is a transaction of its own. Every method may be dropped at any await, and may fail: its caller then closes
/// the connection, and the database rolls the batch back.
pub(crate) trait Purging: Sized {
    /// Whether the rows of a batch stay locked between [`read_expired`](Self::read_expired) and
    /// [`delete_read`](Self::delete_read). Where one transaction writes at a time they do not: nothing else could be
    /// written while the archive has them.
    const LOCKS_BATCH: bool;
    /// Finds a row again.
    type Place: Send + Sync;

    /// Deletes a batch, and gives the number of its rows.
    fn delete_expired(&mut self, due: &Due<'_>) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Reads a batch that is to be archived, the oldest rows first. Its transaction stays open where it locks.
    fn read_expired(
        &mut self,
        due: &Due<'_>,
    ) -> impl Future<Output = Result<Vec<Expired<Self::Place>>, sqlx::Error>> + Send;

    /// Deletes what was read, as far as it is still there, commits, and gives the number of deleted rows.
    fn delete_read(
        &mut self,
        due: &Due<'_>,
        places: &[Self::Place],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

/// A row whose time is over.
pub(crate) struct Expired<P> {
    pub(crate) place: P,
    pub(crate) archived: Archived,
}

/// Which rows a batch takes.
pub(crate) struct Due<'a> {
    pub(crate) table: &'a Table,
    /// How long a row stays beyond its `keep_until`.
    pub(crate) grace: Duration,
    /// The most rows.
    pub(crate) most: u32,
    /// How long to wait for a lock.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "SQLite's wait is a setting of its connections")
    )]
    pub(crate) lock_wait: Duration,
}

impl Due<'_> {
    /// What must be true of a row besides its time: work that was begun and not finished is never purged.
    pub(crate) const fn condition(&self) -> &'static str {
        match self.table.part() {
            Part::Records | Part::Tokens | Part::Attempts => "",
            Part::Leases => " AND done_at IS NOT NULL",
        }
    }

    /// The column that says when the action was claimed.
    pub(crate) const fn claimed_at(&self) -> &'static str {
        match self.table.part() {
            Part::Records => "claimed_at",
            Part::Tokens => "issued_at",
            Part::Leases => "begun_at",
            Part::Attempts => "first_at",
        }
    }

    pub(crate) fn is_leased(&self) -> bool {
        self.table.part() == Part::Leases
    }
}
