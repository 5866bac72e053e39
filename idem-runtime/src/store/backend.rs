use super::{Settings, lease::LeaseBackend, schema::Table};
use crate::{
    error::{ConfigurationError, Ending},
    guard::InsertInto,
    key::Key,
    unit::AttemptToken,
};
use sqlx::Database;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use sqlx::pool::PoolOptions;
use sqlx_core::transaction::TransactionManager as _;
use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

/// What is said differently to each database. The protocol itself is in `unit`.
///
/// Every method that talks to the database may be dropped at any await: its caller then closes the connection.
pub(crate) trait Backend:
    sqlx::Connection<Database: Database<Connection = Self, Arguments: Clone + Sync, ArgumentBuffer: Default>>
    + LeaseBackend
    + Sized
    + 'static
{
    /// The database's name, for people.
    const NAME: &'static str;
    /// Whether only one transaction at a time can write, so that units take turns.
    const ONE_WRITER: bool = false;
    /// Whether the database ends a transaction by itself after some errors (a deadlock), so that a guard that is gone
    /// does not prove a fault in the body.
    const ENDS_TRANSACTIONS: bool;
    /// The SQL of a store, written once.
    type Statements: Send + Sync + 'static;
    /// What keeps the database alive between units, where something must.
    type Keeper: Send + Sync + 'static;

    fn statements(settings: &Settings) -> Self::Statements;

    fn open_pool(
        url: &str,
        settings: &Settings,
    ) -> impl Future<Output = Result<sqlx::Pool<Self::Database>, sqlx::Error>> + Send;

    fn keeper(
        pool: &sqlx::Pool<Self::Database>,
    ) -> impl Future<Output = Result<Self::Keeper, ConfigurationError>> + Send;

    /// Begins a transaction and claims in it, as its first statement.
    ///
    /// After [`Claimed::First`] the transaction is open at sqlx's depth 1, with the guard savepoint set. After
    /// [`Claimed::Repeat`] and [`Claimed::Gone`] the connection is clean (a rollback may be queued on it). After an
    /// error it is in an unknown state.
    fn claim(
        &mut self,
        statements: &Self::Statements,
        entry: &Entry<'_>,
    ) -> impl Future<Output = Result<Claimed, sqlx::Error>> + Send;

    /// Begins a transaction without a claim of our own, for a guard that is the claim; leaves what
    /// [`Claimed::First`] leaves.
    fn begin_unit(&mut self, statements: &Self::Statements) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// How a statement names its value of this number, from 1.
    fn placeholder(number: usize) -> Cow<'static, str>;

    /// Runs a guard in the unit's transaction, and gives the number of rows that it changed.
    fn run_guard(
        &mut self,
        sql: &str,
        arguments: <Self::Database as Database>::Arguments,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Whether a query in the unit's transaction finds a row.
    fn finds(
        &mut self,
        sql: &str,
        arguments: <Self::Database as Database>::Arguments,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Whether an error is the conflict of one unique index of one table, which is given by name or by its columns. Asked when the
    /// unit is rolled back, on a clean connection.
    fn is_conflict_on(
        &mut self,
        error: &sqlx::Error,
        into: &InsertInto<'_>,
        index: &str,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Writes down that a token was issued.
    fn issue_token(
        &mut self,
        statements: &Self::Statements,
        issue: &Issue<'_>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// What is known of a token, for whatever scope it was issued.
    fn issued_tokens(
        &mut self,
        statements: &Self::Statements,
        key: &str,
    ) -> impl Future<Output = Result<Vec<IssuedToken>, sqlx::Error>> + Send;

    /// Counts a message's attempt that begins: one more than is known, and not less than `least`. Gives the count, and
    /// when it began.
    #[cfg(feature = "consume")]
    fn count_attempt(
        &mut self,
        table: &Table,
        counted: &super::attempts::Counting<'_>,
    ) -> impl Future<Output = Result<(i64, Instant), sqlx::Error>> + Send;

    /// Forgets the count of a message.
    #[cfg(feature = "consume")]
    fn forget_attempts(
        &mut self,
        table: &Table,
        counted: &super::attempts::Counting<'_>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Brings a connection on which `claim` failed with a database error back to a clean state.
    fn reset(&mut self, statements: &Self::Statements) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Seals, keeps the result where there is one, and commits.
    fn close_unit(
        &mut self,
        statements: &Self::Statements,
        kept: Option<&Kept<'_>>,
    ) -> impl Future<Output = Result<(), CloseError>> + Send;

    /// Rolls the unit back. `Ok(false)` when the transaction that claimed is no longer open; what is open instead is
    /// rolled back.
    fn roll_back_unit(
        &mut self,
        statements: &Self::Statements,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// The attempt that is recorded for a key, outside any transaction.
    fn recorded_attempt(
        &mut self,
        statements: &Self::Statements,
        key: &Key,
    ) -> impl Future<Output = Result<Option<AttemptToken>, sqlx::Error>> + Send;

    /// What a database error outside the body means.
    fn trouble(error: &sqlx::Error) -> Trouble;

    /// Creates what is missing.
    fn migrate(&mut self, settings: &Settings) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    fn migration_sql(settings: &Settings) -> String;

    /// The faults of a table, a sentence each; `None` when there is no such table.
    fn inspect(&mut self, table: &Table) -> impl Future<Output = Result<Option<Vec<String>>, sqlx::Error>> + Send;
}

/// A record about to be written.
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a Key,
    pub(crate) attempt: AttemptToken,
}

/// A token about to be written down.
pub(crate) struct Issue<'a> {
    pub(crate) scope: &'a str,
    pub(crate) key: &'a str,
    pub(crate) valid_for: Duration,
    pub(crate) keep_for: Duration,
}

/// A token that was issued.
pub(crate) struct IssuedToken {
    pub(crate) scope: String,
    pub(crate) expires_at: Instant,
    pub(crate) now: Instant,
}

/// What the claim statement decided.
pub(crate) enum Claimed {
    First,
    Repeat(Record),
    /// There was a record, and it was gone when it was to be read: purged, or rolled back, in between.
    Gone,
}

/// What is recorded of the first time.
pub(crate) struct Record {
    pub(crate) attempt: Option<AttemptToken>,
    pub(crate) delivery_id: Option<String>,
    pub(crate) claimed_at: Instant,
    pub(crate) keep_until: Instant,
    /// When it was read.
    pub(crate) now: Instant,
    pub(crate) fingerprint: Option<Vec<u8>>,
    pub(crate) result: Option<Vec<u8>>,
}

/// A point in time by the database's clock: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(pub(crate) i64);

impl From<Instant> for SystemTime {
    fn from(instant: Instant) -> Self {
        let since = Duration::from_millis(u64::try_from(instant.0).unwrap_or(0));
        Self::UNIX_EPOCH.checked_add(since).unwrap_or(Self::UNIX_EPOCH)
    }
}

/// A result to be kept with a unit's claim, in the unit.
pub(crate) struct Kept<'a> {
    pub(crate) key: &'a Key,
    pub(crate) result: &'a [u8],
}

/// What a database error means for a unit whose body has not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Another transaction is in the way, and starting again now is the cure: deadlocks, serialization failures.
    Conflict,
    /// A lock was not free in time.
    LockWait,
    /// The connection is lost, or the server is not taking work.
    Connection,
    /// The record table is not there.
    NoTable,
    Other,
}

/// Why a unit was not committed.
pub(crate) enum CloseError {
    /// The seal: the transaction that claimed is gone or spoilt.
    Unsealed(Ending),
    /// The database says that nothing is committed.
    RolledBack(sqlx::Error),
    /// Nobody knows.
    Unknown(sqlx::Error),
}

/// sqlx's transaction depth.
pub(crate) fn depth<C: Backend>(connection: &C) -> usize {
    <<C::Database as Database>::TransactionManager>::get_transaction_depth(connection)
}

/// Queues a rollback, to be sent with whatever is sent next; sqlx's depth goes down at once.
pub(crate) fn start_rollback<C: Backend>(connection: &mut C) {
    <<C::Database as Database>::TransactionManager>::start_rollback(connection);
}

/// Ends sqlx's innermost transaction.
#[cfg(any(feature = "_sqlite", feature = "postgres"))]
pub(crate) async fn commit<C: Backend>(connection: &mut C) -> Result<(), sqlx::Error> {
    <<C::Database as Database>::TransactionManager>::commit(connection).await
}

/// The pool of a store that connects to a server by itself.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn server_pool<C: Backend>(settings: &Settings) -> PoolOptions<C::Database> {
    PoolOptions::new()
        .max_connections(settings.max_connections.unwrap_or(10))
        .acquire_timeout(settings.acquire_timeout)
        // A dead connection is found by the claim, before any user code; only one that was idle for long is asked.
        .test_before_acquire(false)
        .before_acquire(|connection: &mut C, meta| {
            Box::pin(async move { Ok(meta.idle_for < Duration::from_secs(30) || connection.ping().await.is_ok()) })
        })
}

/// The columns that a text such as `account, biz_no` lists, sorted.
pub(crate) fn columns_of(list: &str) -> Vec<String> {
    let mut columns: Vec<String> = list.split(',').map(|column| column.trim().to_owned()).collect();
    columns.sort();
    columns
}
