use super::{Connection, Isolation, Settings, Store, settings::TableName};
use crate::{
    error::ConfigurationError,
    floor::Floor,
    gate::{Front, Gate},
    retention::Retention,
};
use std::{marker::PhantomData, sync::Arc, time::Duration};

/// Settings of a [`Store`].
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_runtime::{PgStore, Retention};
/// use std::time::Duration;
///
/// let store = PgStore::builder()
///     .table("payments.idem_records")
///     .lock_wait(Duration::from_secs(2))
///     .retention(Retention::days(60))
///     .connect("postgres://app@db.internal/shop")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes a store by `connect` or `pool`"]
pub struct StoreBuilder<C> {
    settings: Settings,
    table: Option<String>,
    covers: Option<Floor>,
    connection: PhantomData<fn() -> C>,
}

impl<C: Connection> StoreBuilder<C> {
    pub(super) fn new() -> Self {
        Self { settings: Settings::default(), table: None, covers: None, connection: PhantomData }
    }

    /// The record table, `idem_records` by default, optionally with its schema: `"payments.idem_records"`.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }

    /// How long a unit waits for a lock, 5 seconds by default: a delivery whose action is already running learns
    /// [`Busy`](crate::Busy) after it, and gives its connection back.
    ///
    /// It bounds each lock wait of the unit, the claim's and the body's own. (A claim whose holder fails may then wait
    /// for the next holder.) On PostgreSQL it is `lock_timeout`
    /// (milliseconds), on MySQL and MariaDB `innodb_lock_wait_timeout` (whole seconds, rounded up), both for the
    /// unit only; on SQLite it is the wait for the one writer: for the store's own units, and in a store made by
    /// [`connect`](Self::connect) for other processes too. A pool of your own keeps its `busy_timeout` for those.
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.settings.lock_wait = wait;
        self
    }

    /// The isolation level, READ COMMITTED by default. SQLite has one level only and ignores it.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = isolation;
        self
    }

    /// How long records refuse repeats, 30 days by default.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.settings.retention = retention;
        self
    }

    /// How long after its first delivery a message can come again. A store whose retention is shorter is refused, with the
    /// least that is needed and how it came about. May be said several times: the longest counts.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_runtime::{Floor, PgStore, Retention};
    /// use std::time::Duration;
    ///
    /// let floor = Floor::rocketmq().redriven_within(Duration::from_secs(3 * 86_400));
    /// let store = PgStore::builder()
    ///     .retention(Retention::days(7))
    ///     .covers(floor)
    ///     .connect("postgres://app@db.internal/shop")
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn covers(mut self, floor: Floor) -> Self {
        self.covers = Some(match self.covers {
            Some(covers) => covers.and(floor),
            None => floor,
        });
        self
    }

    /// For [`connect`](Self::connect): the most connections, 10 by default. On SQLite there is one writer connection
    /// whatever is said here.
    pub fn max_connections(mut self, connections: u32) -> Self {
        self.settings.max_connections = Some(connections.max(1));
        self
    }

    /// For [`connect`](Self::connect): how long a unit waits for a connection, 30 seconds by default.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.settings.acquire_timeout = timeout;
        self
    }

    /// How long the unit's own statements (claim, commit, roll back) wait for the database's answer, beyond the lock
    /// wait, 30 seconds by default. A network that swallows answers without breaking the connection is then taken
    /// for a broken one: before the body the unit starts again, and a COMMIT without an answer is resolved by the claim
    /// row. The body's own statements are the body's to bound.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.settings.answer_timeout = timeout;
        self
    }

    /// A gate in front of the store: a fast memory of finished actions, which answers repeats without the database. It
    /// is told of an action after COMMIT and never decides alone that work is lost; see [`gate`](crate::gate). One gate is
    /// for one record table.
    pub fn gate(mut self, gate: impl Gate) -> Self {
        self.settings.gate = Some(Arc::new(Front::new(gate)));
        self
    }

    /// Whether what the gate remembers is asked of the store again, false by default. For where the store may forget
    /// what was committed: an asynchronous replica that is promoted, a restored backup. A gate then saves nothing on a
    /// finished action, and its marks still keep deliveries away from one that is running.
    pub fn confirm(mut self, confirm: bool) -> Self {
        self.settings.confirm = confirm;
        self
    }

    /// Connects to a database.
    ///
    /// # Errors
    /// [`ConfigurationError`] when the table name, the URL or the answer of the database is wrong, or when the retention
    /// is shorter than what the store [`covers`](Self::covers).
    pub async fn connect(self, url: &str) -> Result<Store<C>, ConfigurationError> {
        let settings = self.settings()?;
        let pool = C::open_pool(url, &settings).await.map_err(|error| ConfigurationError::Connect(Box::new(error)))?;
        Ok(Store::build(pool, settings))
    }

    /// A store over the application's own pool.
    ///
    /// # Errors
    /// [`ConfigurationError::TableName`], [`ConfigurationError::Retention`].
    pub fn pool(self, pool: sqlx::Pool<C::Database>) -> Result<Store<C>, ConfigurationError> {
        Ok(Store::build(pool, self.settings()?))
    }

    fn settings(self) -> Result<Settings, ConfigurationError> {
        let mut settings = self.settings;
        if let Some(name) = self.table {
            settings.table = TableName::parse(&name)?;
        }
        if let Some(floor) = self.covers {
            let (retention, needed) = (settings.retention.as_duration(), floor.least());
            if retention < needed {
                return Err(ConfigurationError::Retention { retention, needed, because: floor.to_string() });
            }
        }
        Ok(settings)
    }
}
