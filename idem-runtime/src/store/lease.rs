//! The SQL of leases: one row for each piece of work outside the database.
//!
//! Written once, as text, over the few things that each database says differently. Values are hexadecimal literals, so
//! nothing in them can be taken for SQL, and there is no PREPARE in which a dropped future would lose a connection.
//! Every change is one statement, durable at once; what makes it safe to repeat is the attempt that stands in it.

use super::{
    Settings,
    backend::Instant,
    schema::{Part, Table},
};
use crate::key::Key;
use std::{fmt::Write as _, marker::PhantomData, time::Duration};

/// The attempt of a row that nobody owns: it was given back, or resolved by a person.
pub(crate) const NOBODY: [u8; 16] = [0; 16];
/// The columns of [`LeaseRow`], in its order.
const COLUMNS: usize = 13;

/// What of leases is said differently to each database.
pub(crate) trait LeaseBackend: Sized + 'static {
    const QUOTE: char;
    /// The database's time, UTC.
    const NOW: &'static str;
    /// What follows an INSERT so that a row that is there is no error, where the database has that.
    const UNLESS_THERE: &'static str;

    /// A literal for a column of short text (keys, delivery ids).
    fn text(text: &str) -> String;

    /// A literal for a column of long text.
    fn long_text(text: &str) -> String {
        Self::text(text)
    }

    fn bytes(bytes: &[u8]) -> String;

    /// The database's time and so many milliseconds.
    fn from_now(millis: i64) -> String;

    /// An instant as milliseconds since the Unix epoch.
    fn epoch_millis(instant: &str) -> String;

    /// A text column as bytes.
    fn as_bytes(column: &str) -> String;

    /// Runs a step, each of its statements durable when it is answered.
    fn run_step(&mut self, step: &LeaseStep) -> impl Future<Output = Result<LeaseAnswer, sqlx::Error>> + Send;
}

/// A change of at most one row, and what is read when it changed nothing (or when there is no change).
#[derive(Debug, Default)]
pub(crate) struct LeaseStep {
    pub(crate) change: Option<String>,
    pub(crate) read: Option<String>,
}

/// What became of a [`LeaseStep`].
#[derive(Debug, Default)]
pub(crate) struct LeaseAnswer {
    pub(crate) changed: u64,
    pub(crate) rows: Vec<LeaseRow>,
}

/// A row as it was read.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRow {
    pub(crate) scope: String,
    pub(crate) key: String,
    pub(crate) fence: i64,
    pub(crate) attempt: Vec<u8>,
    pub(crate) attempts: i64,
    pub(crate) delivery_id: Option<String>,
    pub(crate) fingerprint: Option<Vec<u8>>,
    pub(crate) message: Option<String>,
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) begun_at: Instant,
    pub(crate) lease_until: Instant,
    pub(crate) is_done: bool,
    pub(crate) keep_until: Instant,
    /// When it was read.
    pub(crate) now: Instant,
}

impl LeaseRow {
    /// Reads the columns that [`LeaseSql`] selects.
    #[cfg(any(feature = "_sqlite", feature = "postgres", feature = "mysql"))]
    pub(super) fn read<'r, R>(row: &'r R) -> Result<Self, sqlx::Error>
    where
        R: sqlx::Row,
        usize: sqlx::ColumnIndex<R>,
        i64: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
        Vec<u8>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
        Option<i64>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
        Option<Vec<u8>>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    {
        let text = |column: usize| Ok::<_, sqlx::Error>(readable(&row.try_get::<Vec<u8>, _>(column)?));
        let maybe = |column: usize| {
            Ok::<_, sqlx::Error>(row.try_get::<Option<Vec<u8>>, _>(column)?.map(|bytes| readable(&bytes)))
        };
        let instant = |column: usize| Ok::<_, sqlx::Error>(Instant(row.try_get(column)?));
        Ok(Self {
            scope: text(0)?,
            key: text(1)?,
            fence: row.try_get(2)?,
            attempt: row.try_get(3)?,
            attempts: row.try_get(4)?,
            delivery_id: maybe(5)?,
            fingerprint: row.try_get(6)?,
            message: maybe(7)?,
            result: row.try_get(8)?,
            begun_at: instant(9)?,
            lease_until: instant(10)?,
            is_done: row.try_get::<Option<i64>, _>(11)?.is_some(),
            keep_until: instant(12)?,
            now: instant(COLUMNS)?,
        })
    }
}

fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The statements of a store's lease table.
pub(crate) struct LeaseSql<C> {
    table: String,
    retention_ms: i64,
    backend: PhantomData<fn() -> C>,
}

impl<C: LeaseBackend> LeaseSql<C> {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            table: Table::new(&settings.table, Part::Leases).name.quoted(C::QUOTE),
            retention_ms: signed_millis(settings.retention.as_duration()),
            backend: PhantomData,
        }
    }

    /// Begins the work for the first time; reads the row where there is one.
    pub(crate) fn insert(&self, key: &Key, attempt: &[u8], lease: Duration) -> LeaseStep {
        let change = format!(
            "INSERT INTO {} (scope, action_key, fence, attempt, attempts, delivery_id, fingerprint, message, begun_at, \
             lease_until, keep_until) VALUES ({}, {}, 1, {}, 1, {}, {}, {}, {}, {}, {}){}",
            self.table,
            C::text(key.scope_name()),
            C::text(key.text()),
            C::bytes(attempt),
            or_null(key.delivery_id(), C::text),
            or_null(fingerprint(key), C::bytes),
            or_null(key.message(), C::long_text),
            C::NOW,
            C::from_now(signed_millis(lease)),
            C::from_now(self.retention_ms),
            C::UNLESS_THERE,
        );
        LeaseStep { change: Some(change), read: Some(self.select_one(key.scope_name(), key.text())) }
    }

    /// Takes work over whose lease ran out; reads the row when it is no longer what was read before.
    pub(crate) fn take(&self, key: &Key, attempt: &[u8], lease: Duration, fence: i64) -> LeaseStep {
        let change = format!(
            "UPDATE {} SET fence = fence + 1, attempt = {}, attempts = attempts + 1, delivery_id = {}, \
             fingerprint = COALESCE({}, fingerprint), message = COALESCE({}, message), lease_until = {}, keep_until = {} \
             WHERE {} AND fence = {fence} AND done_at IS NULL AND lease_until <= {}",
            self.table,
            C::bytes(attempt),
            or_null(key.delivery_id(), C::text),
            or_null(fingerprint(key), C::bytes),
            or_null(key.message(), C::long_text),
            C::from_now(signed_millis(lease)),
            C::from_now(self.retention_ms),
            named::<C>(key.scope_name(), key.text()),
            C::NOW,
        );
        LeaseStep { change: Some(change), read: Some(self.select_one(key.scope_name(), key.text())) }
    }

    /// Renews the lease of an owner.
    pub(crate) fn renew(&self, key: &Key, attempt: &[u8], fence: i64, lease: Duration) -> LeaseStep {
        let change = format!(
            "UPDATE {} SET lease_until = {} WHERE {} AND fence = {fence} AND attempt = {} AND done_at IS NULL",
            self.table,
            C::from_now(signed_millis(lease)),
            named::<C>(key.scope_name(), key.text()),
            C::bytes(attempt),
        );
        LeaseStep { change: Some(change), read: None }
    }

    /// Says that an owner's work is done. To say it again changes nothing.
    pub(crate) fn complete(&self, key: &Key, attempt: &[u8], fence: i64, result: Option<&[u8]>) -> LeaseStep {
        let change = format!(
            "UPDATE {} SET done_at = COALESCE(done_at, {}), result = {}, keep_until = {} \
             WHERE {} AND fence = {fence} AND attempt = {}",
            self.table,
            C::NOW,
            or_null(result, C::bytes),
            C::from_now(self.retention_ms),
            named::<C>(key.scope_name(), key.text()),
            C::bytes(attempt),
        );
        LeaseStep { change: Some(change), read: Some(self.select_one(key.scope_name(), key.text())) }
    }

    /// Ends an attempt's lease, so that the next delivery may begin at once.
    pub(crate) fn release(&self, key: &Key, attempt: &[u8]) -> LeaseStep {
        let change = format!(
            "UPDATE {} SET lease_until = {}, attempt = {} WHERE {} AND attempt = {} AND done_at IS NULL",
            self.table,
            C::NOW,
            C::bytes(&NOBODY),
            named::<C>(key.scope_name(), key.text()),
            C::bytes(attempt),
        );
        LeaseStep { change: Some(change), read: None }
    }

    /// Work begun and not done, whose lease ran out so long ago, in the order of scope and key.
    pub(crate) fn unfinished(&self, older_than: Duration, after: Option<(&str, &str)>, limit: u32) -> LeaseStep {
        let mut read = self.select();
        // Writing into a String cannot fail.
        let _ = write!(
            read,
            " WHERE done_at IS NULL AND lease_until <= {}",
            C::from_now(signed_millis(older_than).saturating_neg())
        );
        if let Some((scope, key)) = after {
            let (scope, key) = (C::text(scope), C::text(key));
            let _ = write!(read, " AND (scope > {scope} OR (scope = {scope} AND action_key > {key}))");
        }
        let _ = write!(read, " ORDER BY scope, action_key LIMIT {limit}");
        LeaseStep { change: None, read: Some(read) }
    }

    /// Settles work that nobody is working on, if it still is what was read.
    pub(crate) fn resolve(&self, scope: &str, key: &str, fence: i64, done: bool) -> LeaseStep {
        let set = if done {
            format!("done_at = {}, keep_until = {}", C::NOW, C::from_now(self.retention_ms))
        } else {
            format!("lease_until = {}", C::NOW)
        };
        // Whoever began it and is still at it can no longer complete it.
        let change = format!(
            "UPDATE {} SET {set}, attempt = {} WHERE {} AND fence = {fence} AND done_at IS NULL AND lease_until <= {}",
            self.table,
            C::bytes(&NOBODY),
            named::<C>(scope, key),
            C::NOW,
        );
        LeaseStep { change: Some(change), read: Some(self.select_one(scope, key)) }
    }

    fn select_one(&self, scope: &str, key: &str) -> String {
        format!("{} WHERE {}", self.select(), named::<C>(scope, key))
    }

    fn select(&self) -> String {
        format!(
            "SELECT {}, {}, fence, attempt, attempts, {}, fingerprint, {}, result, {}, {}, {}, {}, {} FROM {}",
            C::as_bytes("scope"),
            C::as_bytes("action_key"),
            C::as_bytes("delivery_id"),
            C::as_bytes("message"),
            C::epoch_millis("begun_at"),
            C::epoch_millis("lease_until"),
            C::epoch_millis("done_at"),
            C::epoch_millis("keep_until"),
            C::epoch_millis(C::NOW),
            self.table,
        )
    }
}

fn named<C: LeaseBackend>(scope: &str, key: &str) -> String {
    format!("scope = {} AND action_key = {}", C::text(scope), C::text(key))
}

fn or_null<T: ?Sized>(value: Option<&T>, literal: impl FnOnce(&T) -> String) -> String {
    value.map_or_else(|| "NULL".to_owned(), literal)
}

fn fingerprint(key: &Key) -> Option<&[u8]> {
    key.fingerprint().map(crate::key::Fingerprint::as_bytes)
}

/// Whole milliseconds, at most 100 years: beyond it calendars of some databases end.
fn signed_millis(duration: Duration) -> i64 {
    const MOST: i64 = 36_500 * 86_400_000;
    i64::try_from(duration.as_millis()).map_or(MOST, |millis| millis.min(MOST))
}
