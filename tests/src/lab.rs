//! One world a test: a database of its own with accounts, orders and a record table.

use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection, SqliteConnection};
use std::{
    env,
    sync::atomic::{AtomicU32, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// What only text can say differently to each database.
pub mod dialect {
    /// Which database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Dialect {
        /// SQLite.
        Sqlite,
        /// PostgreSQL.
        Postgres,
        /// MySQL or MariaDB.
        MySql,
    }

    impl Dialect {
        /// SQL with `?` placeholders as this database writes them.
        #[must_use]
        pub fn sql(self, sql: &str) -> String {
            if self != Self::Postgres {
                return sql.to_owned();
            }
            let mut out = String::new();
            for (number, piece) in sql.split('?').enumerate() {
                if number > 0 {
                    out.push('$');
                    out.push_str(&number.to_string());
                }
                out.push_str(piece);
            }
            out
        }
    }
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A name for the world of one test; it starts with the second it was made in, so that old ones can be told.
fn world() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("idem_test_{now}_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Whether a world was left behind by a run that was killed, over an hour ago.
fn is_stale(world: &str) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let made = world.strip_prefix("idem_test_").and_then(|rest| rest.split('_').next()).and_then(|at| at.parse().ok());
    made.is_some_and(|made: u64| made + 3600 < now)
}

fn server(variable: &str, default: &str) -> String {
    env::var(variable).unwrap_or_else(|_| default.to_owned())
}

const ACCOUNTS: &str = "CREATE TABLE accounts (id VARCHAR(64) NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)";
const ORDERS: &str = "CREATE TABLE orders (order_no VARCHAR(64) NOT NULL PRIMARY KEY, \
    account VARCHAR(64) NOT NULL, status VARCHAR(32) NOT NULL, amount BIGINT NOT NULL CHECK (amount > 0), \
    FOREIGN KEY (account) REFERENCES accounts (id))";

macro_rules! database {
    (
        $(#[$doc:meta])* $module:ident, $dialect:ident, $database:ident, $conn:ident, $store:ident
    ) => {
        $(#[$doc])*
        pub mod $module {
            pub use super::dialect::Dialect;
            use super::{ACCOUNTS, ORDERS};
            use idem_runtime::{Store, StoreBuilder};
            use sqlx::{AssertSqlSafe, Executor as _, Row as _};

            /// The connection type.
            pub type Conn = sqlx::$conn;
            /// The pool type.
            pub type Pool = sqlx::Pool<sqlx::$database>;
            /// The type of pool options.
            pub type PoolOptions = sqlx::pool::PoolOptions<sqlx::$database>;
            /// The type of connect options.
            pub type ConnectOptions = <Conn as sqlx::Connection>::Options;
            /// The store type.
            pub type Db = idem_runtime::$store;
            /// Which database this is.
            pub const DIALECT: Dialect = Dialect::$dialect;

            /// The world of one test.
            #[derive(Debug)]
            pub struct Lab {
                /// The store under test, with the record table made.
                pub store: Db,
                /// A pool that has nothing to do with the store, for looking at the database.
                pub pool: Pool,
                /// The database's URL.
                pub url: String,
                world: super::World,
            }

            impl Lab {
                /// A world with accounts `a` and `b` at 0, no orders and no records; a store with a short lock wait.
                pub async fn new() -> Self {
                    let (world, url) = super::World::$dialect().await;
                    let pool = PoolOptions::new().max_connections(4).connect(&url).await.expect("the lab's pool");
                    for sql in [ACCOUNTS, ORDERS, "INSERT INTO accounts VALUES ('a', 0), ('b', 0)"] {
                        pool.execute(sql).await.expect("the lab's tables");
                    }
                    let store = Self::builder().connect(&url).await.expect("the store connects");
                    store.migrate().await.expect("the record table");
                    Self { store, pool, url, world }
                }

                /// The settings of [`store`](Self::store).
                pub fn builder() -> StoreBuilder<Conn> {
                    Store::builder().lock_wait(std::time::Duration::from_secs(2)).max_connections(8)
                }

                /// A store of other settings over the same database.
                pub async fn other_store(&self, builder: StoreBuilder<Conn>) -> Db {
                    builder.connect(&self.url).await.expect("another store")
                }

                /// Drops the world.
                pub async fn close(self) {
                    self.store.pool().close().await;
                    self.pool.close().await;
                    self.world.close().await;
                }

                /// The first column of the only row, through the lab's own pool.
                pub async fn number(&self, sql: &str) -> i64 {
                    let row = self.pool.fetch_one(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.expect("one row");
                    row.try_get::<i64, _>(0).expect("a number")
                }

                /// The balance of an account.
                pub async fn balance(&self, account: &str) -> i64 {
                    self.number(&format!("SELECT balance FROM accounts WHERE id = '{account}'")).await
                }

                /// The number of rows of a table.
                pub async fn rows(&self, table: &str) -> i64 {
                    self.number(&format!("SELECT count(*) FROM {table}")).await
                }

                /// The number of records.
                pub async fn claims(&self) -> i64 {
                    self.rows("idem_records").await
                }

                /// Waits until no transaction is open in this world.
                ///
                /// # Panics
                /// When one still is after ten seconds.
                pub async fn wait_until_calm(&self) {
                    let mut db = self.pool.acquire().await.expect("a connection");
                    match DIALECT {
                        // There is one writer, and it is us.
                        Dialect::Sqlite => raw(&mut db, "BEGIN IMMEDIATE; ROLLBACK").await.expect("an open transaction"),
                        // Open transactions hold the definition of what they touched.
                        Dialect::MySql => raw(
                            &mut db,
                            "SET lock_wait_timeout = 10; LOCK TABLES accounts WRITE, orders WRITE, idem_records WRITE; \
                             UNLOCK TABLES; SET lock_wait_timeout = DEFAULT",
                        )
                        .await
                        .expect("an open transaction"),
                        Dialect::Postgres => {
                            for tries in 0.. {
                                let open = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' \
                                     AND pid <> pg_backend_pid() AND application_name = current_setting('application_name')";
                                if self.number(open).await == 0 {
                                    break;
                                }
                                assert!(tries < 200, "a transaction is left open");
                                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                            }
                        }
                    }
                }

                /// Waits until so many sessions of this world wait for locks. SQLite does not show it, and is given a
                /// moment.
                ///
                /// # Panics
                /// When they do not after ten seconds.
                pub async fn wait_until_blocked(&self, sessions: i64) {
                    let (sql, looks) = match DIALECT {
                        Dialect::Sqlite => return tokio::time::sleep(std::time::Duration::from_millis(200)).await,
                        Dialect::Postgres => (
                            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                             AND application_name = current_setting('application_name')",
                            1,
                        ),
                        // What the server says of lock waits is a copy that is renewed only while nobody reads it. A
                        // session that is busy each time it is looked at waits.
                        Dialect::MySql => (
                            "SELECT count(*) FROM information_schema.processlist WHERE db = database() \
                             AND command IN ('Query', 'Execute') AND id <> connection_id()",
                            4,
                        ),
                    };
                    let mut seen = 0;
                    for _ in 0..200 {
                        seen = if self.number(sql).await >= sessions { seen + 1 } else { 0 };
                        if seen == looks {
                            return;
                        }
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                    panic!("nobody waits for a lock");
                }
            }

            /// Runs SQL with `?` placeholders and text arguments on a connection.
            ///
            /// # Errors
            /// The database's.
            pub async fn execute(db: &mut Conn, sql: &str, arguments: &[&str]) -> Result<u64, sqlx::Error> {
                let mut query = sqlx::query(AssertSqlSafe(DIALECT.sql(sql)));
                for argument in arguments {
                    query = query.bind((*argument).to_owned());
                }
                query.execute(&mut *db).await.map(|done| done.rows_affected())
            }

            /// Runs SQL as text, several statements if need be.
            ///
            /// # Errors
            /// The database's.
            pub async fn raw(db: &mut Conn, sql: &str) -> Result<(), sqlx::Error> {
                db.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.map(|_| ())
            }

            /// Adds to an account.
            ///
            /// # Errors
            /// The database's.
            pub async fn credit(db: &mut Conn, account: &str, amount: i64) -> Result<(), sqlx::Error> {
                let sql = DIALECT.sql("UPDATE accounts SET balance = balance + ? WHERE id = ?");
                let done = sqlx::query(AssertSqlSafe(sql)).bind(amount).bind(account.to_owned()).execute(&mut *db).await?;
                assert_eq!(done.rows_affected(), 1, "no account {account}");
                Ok(())
            }
        }
    };
}

database!(
    /// Worlds in SQLite files.
    sqlite, Sqlite, Sqlite, SqliteConnection, SqliteStore
);
database!(
    /// Worlds on a PostgreSQL server, a schema each.
    postgres, Postgres, Postgres, PgConnection, PgStore
);
database!(
    /// Worlds on a MySQL or MariaDB server, a database each.
    mysql, MySql, MySql, MySqlConnection, MySqlStore
);

/// Where the tables of a test are.
#[derive(Debug)]
enum World {
    Directory(tempfile::TempDir),
    Schema { server: String, name: String },
    Database { server: String, name: String },
}

#[allow(non_snake_case, reason = "named like the dialects, for the macro above")]
impl World {
    async fn Sqlite() -> (Self, String) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("lab.db");
        let url = format!("sqlite://{}?mode=rwc", path.display());
        // The store would do the same; the lab's pool comes first.
        let mut file = SqliteConnection::connect(&url).await.expect("a new file");
        file.execute("PRAGMA journal_mode = WAL").await.expect("WAL");
        (Self::Directory(directory), url)
    }

    async fn Postgres() -> (Self, String) {
        let server = server("IDEM_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/postgres");
        let name = world();
        let mut admin = PgConnection::connect(&server)
            .await
            .unwrap_or_else(|error| panic!("no PostgreSQL at {server} (IDEM_TEST_POSTGRES): {error}"));
        let old: Vec<String> =
            sqlx::query_scalar("SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'idem\\_test\\_%'")
                .fetch_all(&mut admin)
                .await
                .expect("schemas");
        for old in old.iter().filter(|old| is_stale(old)) {
            let sql = format!("DROP SCHEMA IF EXISTS {old} CASCADE");
            let _ = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await;
        }
        let sql = format!("CREATE SCHEMA {name}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await.expect("a schema");
        let joint = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{joint}options[search_path]={name}&application_name={name}");
        (Self::Schema { server, name }, url)
    }

    async fn MySql() -> (Self, String) {
        let server = server("IDEM_TEST_MYSQL", "mysql://root@127.0.0.1:3306");
        let server = server.trim_end_matches('/').to_owned();
        let name = world();
        let mut admin = MySqlConnection::connect(&server)
            .await
            .unwrap_or_else(|error| panic!("no MySQL or MariaDB at {server} (IDEM_TEST_MYSQL): {error}"));
        let old: Vec<String> = sqlx::query_scalar(
            "SELECT CAST(schema_name AS CHAR) FROM information_schema.schemata WHERE schema_name LIKE 'idem\\_test\\_%'",
        )
        .fetch_all(&mut admin)
        .await
        .expect("databases");
        for old in old.iter().filter(|old| is_stale(old)) {
            let sql = format!("DROP DATABASE IF EXISTS {old}");
            let _ = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await;
        }
        let sql = format!("CREATE DATABASE {name}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await.expect("a database");
        let url = format!("{server}/{name}");
        (Self::Database { server, name }, url)
    }

    async fn close(self) {
        match self {
            Self::Directory(directory) => drop(directory),
            Self::Schema { server, name } => {
                let mut admin = PgConnection::connect(&server).await.expect("the server");
                // A session that the test left waiting would hold its locks for ever.
                let sql = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'; \
                     DROP SCHEMA {name} CASCADE"
                );
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await.expect("the schema is dropped");
            }
            Self::Database { server, name } => {
                let mut admin = MySqlConnection::connect(&server).await.expect("the server");
                let sql = format!("DROP DATABASE {name}");
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await.expect("the database is dropped");
            }
        }
    }
}
