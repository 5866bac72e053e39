//! A store: a database plus settings, the authority on what has been done.
//!
//! Everything that differs between databases is behind [`backend::Backend`], one file a database; the unit is written
//! once, over it.

#[cfg(feature = "consume")]
mod attempts;
mod backend;
mod builder;
mod held;
mod lease;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod purge;
mod schema;
mod settings;
#[cfg(feature = "_sqlite")]
mod sqlite;

use crate::error::{ConfigurationError, DatabaseError, Phase};
#[cfg(any(feature = "redis", feature = "consume"))]
pub(crate) use backend::Instant;
pub(crate) use backend::{Backend, Claimed, CloseError, Entry, Issue, IssuedToken, Kept, Record, Trouble, depth};
pub use builder::StoreBuilder;
pub(crate) use held::Held;
pub(crate) use lease::{LeaseAnswer, LeaseRow, LeaseSql, LeaseStep, NOBODY};
pub(crate) use purge::{Due, Purging};
pub(crate) use schema::{Part, Table};
pub use settings::Isolation;
pub(crate) use settings::Settings;
use std::{fmt, sync::Arc};
use tokio::sync::{OnceCell, Semaphore};

/// A connection type that a store can be made of: `PgConnection`, `MySqlConnection`, `SqliteConnection` of sqlx.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database connection that idem can claim on",
    label = "the parameter named by `store` is `&mut` of a connection type",
    note = "use `&mut PgConnection`, `&mut MySqlConnection` or `&mut SqliteConnection` of sqlx, and enable the feature \
            `postgres`, `mysql` or `sqlite` of idem-runtime"
)]
#[expect(private_bounds, reason = "the set of databases is closed: each needs its own protocol")]
pub trait Connection: Backend + Purging {}

/// A store on PostgreSQL.
#[cfg(feature = "postgres")]
pub type PgStore = Store<sqlx::PgConnection>;
/// A store on MySQL or MariaDB.
#[cfg(feature = "mysql")]
pub type MySqlStore = Store<sqlx::MySqlConnection>;
/// A store on SQLite.
#[cfg(feature = "_sqlite")]
pub type SqliteStore = Store<sqlx::SqliteConnection>;

/// A database with a record table: where actions are claimed, in the transaction of the business write.
///
/// Cheap to clone; clones share the pool.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_runtime::{Key, Outcome, SqliteStore};
///
/// let store = SqliteStore::connect("sqlite::memory:").await?;
/// store.migrate().await?;
///
/// for _delivery in 0..2 {
///     let key = Key::scope("greeting").part("order-1").finish();
///     let outcome = store.once(key, async |db| sqlx::query("SELECT 1").execute(&mut *db).await).await?;
///     match outcome {
///         Outcome::First(_) => println!("done"),
///         Outcome::Duplicate(seen) => println!("seen at {:?}", seen.first_at),
///         Outcome::Ignored(_) => {}
///     }
/// }
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
pub struct Store<C: Connection> {
    shared: Arc<Shared<C>>,
}

struct Shared<C: Connection> {
    pool: sqlx::Pool<C::Database>,
    settings: Settings,
    statements: C::Statements,
    /// On databases with one writer: its turn. Waiting here is fair; the database's own waiting is not.
    turn: Option<Arc<Semaphore>>,
    /// What keeps a SQLite database in memory alive while no pooled connection does.
    keeper: OnceCell<C::Keeper>,
    /// Set once a table has been found fit, in the order of [`Part`].
    ready: [OnceCell<()>; 4],
}

impl<C: Connection> Clone for Store<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: Connection> fmt::Debug for Store<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("database", &C::NAME).field("settings", &self.shared.settings).finish()
    }
}

impl<C: Connection> Store<C> {
    /// Connects with the default settings; see [`builder`](Self::builder) for others.
    ///
    /// The URL is sqlx's: `postgres://user@host/db`, `mysql://user@host/db`, `sqlite://path/to/file.db`,
    /// `sqlite::memory:`. A SQLite file is created when it is missing.
    ///
    /// # Errors
    /// [`ConfigurationError::Connect`] when the URL is wrong or the database does not answer.
    pub async fn connect(url: &str) -> Result<Self, ConfigurationError> {
        Self::builder().connect(url).await
    }

    /// A store over the application's own pool, with the default settings.
    ///
    /// Units then share the pool's connections with other code. For the fewest round trips build the pool with
    /// `test_before_acquire(false)`, as [`connect`](Self::connect) does: the store replaces a dead connection by
    /// itself, since no user code has run by then.
    #[must_use]
    pub fn new(pool: sqlx::Pool<C::Database>) -> Self {
        Self::build(pool, Settings::default())
    }

    /// Settings other than the default.
    pub fn builder() -> StoreBuilder<C> {
        StoreBuilder::new()
    }

    fn build(pool: sqlx::Pool<C::Database>, settings: Settings) -> Self {
        let statements = C::statements(&settings);
        let turn = C::ONE_WRITER.then(|| Arc::new(Semaphore::new(1)));
        Self {
            shared: Arc::new(Shared {
                pool,
                settings,
                statements,
                turn,
                keeper: OnceCell::new(),
                ready: Default::default(),
            }),
        }
    }

    /// The pool that units take their connections from.
    ///
    /// A body must not use it for its writes: those would be outside the unit and survive its rollback. On SQLite
    /// a store made by [`connect`](Self::connect) has one connection, so a body that waits for the pool waits for
    /// itself, until the acquire timeout.
    #[must_use]
    pub fn pool(&self) -> &sqlx::Pool<C::Database> {
        &self.shared.pool
    }

    /// The SQL that creates the tables under this store's table name, for a team's own migrations.
    ///
    /// With the default name these are the files in `migrations/<database>` of this crate: the record table, and those of
    /// tokens, leases and attempts, named after it.
    #[must_use]
    pub fn migration_sql(&self) -> String {
        C::migration_sql(&self.shared.settings)
    }

    /// Creates the tables where they are missing (records, tokens, leases, attempts), and verifies them. Safe to run at every
    /// start, and by many instances at once: where they are it only looks, and needs no right to create one.
    ///
    /// # Errors
    /// [`ConfigurationError`] when the SQL fails, or when a table of that name exists and does not fit.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await.
    pub async fn migrate(&self) -> Result<(), ConfigurationError> {
        match self.check_all().await {
            Err(ConfigurationError::NoTable { .. }) => {}
            found => return found,
        }
        let mut held = self.acquire_for_schema().await?;
        C::migrate(held.connection(), &self.shared.settings).await.map_err(Self::schema_error)?;
        held.set_clean();
        drop(held);
        self.check_all().await
    }

    async fn check_all(&self) -> Result<(), ConfigurationError> {
        for part in Part::ALL {
            self.verify_part(part).await?;
        }
        Ok(())
    }

    /// Checks that the record table keeps the promises: its columns, a unique index on exactly scope and key, keys
    /// that compare byte for byte, an engine that rolls back and survives a crash.
    ///
    /// The first unit of a store does this by itself; call it at start to learn of a fault early.
    ///
    /// # Errors
    /// [`ConfigurationError::NoTable`] or [`ConfigurationError::Table`], each with what to run.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await.
    pub async fn verify(&self) -> Result<(), ConfigurationError> {
        self.verify_part(Part::Records).await
    }

    /// Looks at one table, and remembers when it is fit.
    async fn verify_part(&self, part: Part) -> Result<(), ConfigurationError> {
        let mut held = self.acquire_for_schema().await?;
        let table = Table::new(&self.shared.settings.table, part);
        let found = C::inspect(held.connection(), &table).await.map_err(|error| Self::schema_error(error))?;
        held.set_clean();
        let (table, sql) = (table.to_string(), C::migration_sql(&self.shared.settings));
        match found {
            None => Err(self.no_table(part)),
            Some(faults) if faults.is_empty() => {
                // Already set in a store that is in use.
                let _ = self.shared.ready[part as usize].set(());
                Ok(())
            }
            Some(faults) => Err(ConfigurationError::Table { table, faults, sql }),
        }
    }

    /// Makes sure that a table is fit before it is used. Units that start at once each look: waiting for one another
    /// they would wait for each other's timeouts when the database is away.
    pub(crate) async fn ready(&self, part: Part) -> Result<(), ConfigurationError> {
        if self.shared.ready[part as usize].initialized() { Ok(()) } else { self.verify_part(part).await }
    }

    /// A table is not there.
    pub(crate) fn no_table(&self, part: Part) -> ConfigurationError {
        let table = Table::new(&self.shared.settings.table, part).to_string();
        ConfigurationError::NoTable { table, sql: self.migration_sql() }
    }

    async fn acquire_for_schema(&self) -> Result<Held<C>, ConfigurationError> {
        self.shared.keeper.get_or_try_init(|| C::keeper(&self.shared.pool)).await?;
        Held::acquire(&self.shared.pool, None).await.map_err(|error| Self::connect_error(error))
    }

    /// A connection for a statement of its own, outside any unit.
    pub(crate) async fn acquire_for_statement(&self) -> Result<Held<C>, sqlx::Error> {
        Held::acquire(&self.shared.pool, None).await
    }

    fn connect_error(error: sqlx::Error) -> ConfigurationError {
        ConfigurationError::Connect(Box::new(error))
    }

    fn schema_error(error: sqlx::Error) -> ConfigurationError {
        ConfigurationError::Database(DatabaseError {
            phase: Phase::Schema,
            retryable: !matches!(C::trouble(&error), Trouble::Other),
            source: Box::new(error),
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(crate) fn statements(&self) -> &C::Statements {
        &self.shared.statements
    }

    pub(crate) fn turn(&self) -> Option<&Arc<Semaphore>> {
        self.shared.turn.as_ref()
    }
}
