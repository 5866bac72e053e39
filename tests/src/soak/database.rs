//! The database of a soak: a server of its own, and what is counted in it.

use super::{Report, worker};
use crate::{brokers::Credit, process::free_port};
use idem_runtime::consume::{Adapter, Consumer};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// A PostgreSQL (`postgres`), or a MySQL or MariaDB (`mysql`), of one run's own.
#[derive(Debug)]
pub struct Node {
    kind: String,
    directory: tempfile::TempDir,
    port: u16,
}

fn services() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/services")
}

impl Node {
    /// Makes one and starts it.
    pub async fn start(kind: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let node = Self { kind: kind.to_owned(), directory, port: free_port() };
        node.restart().await;
        node
    }

    /// Its URL.
    pub fn url(&self) -> String {
        match &*self.kind {
            "postgres" => format!("postgres://postgres@127.0.0.1:{}/postgres", self.port),
            _ => format!("mysql://root@127.0.0.1:{}/mysql", self.port),
        }
    }

    fn script(&self, word: &str) -> Command {
        let mut command = Command::new(services());
        command.arg(word).arg(&self.kind).arg(self.directory.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    async fn run(mut command: Command) {
        let done = tokio::task::spawn_blocking(move || command.status()).await.expect("waiting").expect("the script");
        assert!(done.success(), "scripts/services failed");
    }

    /// Starts it again.
    pub async fn restart(&self) {
        let mut command = self.script("own");
        command.arg(self.port.to_string());
        Self::run(command).await;
    }

    /// Ends it without a warning.
    pub async fn crash(&self) {
        Self::run(self.script("crash")).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.script("crash").status();
    }
}

/// What is counted.
pub(super) enum Ledger {
    Postgres(postgres::Book),
    MySql(mysql::Book),
}

impl Ledger {
    pub(super) async fn new(kind: &str, url: &str) -> Self {
        match kind {
            "postgres" => Self::Postgres(postgres::Book::new(url).await),
            "mysql" => Self::MySql(mysql::Book::new(url).await),
            other => panic!("no such database: {other}"),
        }
    }

    /// How many actions have an effect.
    pub(super) async fn done(&self) -> i64 {
        self.number("SELECT count(DISTINCT action_no) FROM effects").await
    }

    async fn number(&self, sql: &str) -> i64 {
        match self {
            Self::Postgres(book) => book.number(sql).await,
            Self::MySql(book) => book.number(sql).await,
        }
    }

    pub(super) async fn count(&self, messages: u32, report: &mut Report) {
        let done = self.done().await;
        let effects = self.number("SELECT count(*) FROM effects").await;
        // A sum is a decimal.
        let money = match self {
            Self::Postgres(_) => self.number("SELECT CAST(sum(balance) AS BIGINT) FROM accounts").await,
            Self::MySql(_) => self.number("SELECT CAST(sum(balance) AS SIGNED) FROM accounts").await,
        };
        report.lost = i64::from(messages) - done;
        report.doubled = effects - done;
        report.money_off = money - i64::from(messages);
    }

    /// Consumes in this process, to the end of what is left.
    pub(super) async fn consume<A: Adapter>(
        &self,
        consumer: Consumer<A, Credit>,
    ) -> Result<idem_runtime::consume::Summary, idem_runtime::consume::RunError> {
        match self {
            Self::Postgres(book) => worker::postgres::run(consumer, &book.store, super::Body::Annotated).await,
            Self::MySql(book) => worker::mysql::run(consumer, &book.store, super::Body::Annotated).await,
        }
    }
}

macro_rules! book {
    ($database:ident) => {
        pub(super) mod $database {
            use crate::$database::{Conn, Db, Pool, PoolOptions};
            use idem_runtime::Store;
            use sqlx::{AssertSqlSafe, Executor as _, Row as _};

            pub(in crate::soak) struct Book {
                pub(super) store: Db,
                pool: Pool,
            }

            impl Book {
                pub(super) async fn new(url: &str) -> Self {
                    let pool = PoolOptions::new().max_connections(2).connect(url).await.expect("the ledger's pool");
                    for sql in [
                        "CREATE TABLE effects (action_no VARCHAR(64) NOT NULL)",
                        "CREATE TABLE accounts (id VARCHAR(8) NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)",
                        "INSERT INTO accounts VALUES ('0', 0), ('1', 0), ('2', 0), ('3', 0), ('4', 0), ('5', 0), ('6', 0), \
                         ('7', 0), ('8', 0), ('9', 0)",
                    ] {
                        pool.execute(sql).await.expect("the ledger's tables");
                    }
                    let store = Store::<Conn>::builder().max_connections(8).connect(url).await.expect("the store");
                    store.migrate().await.expect("the record table");
                    Self { store, pool }
                }

                /// Over a connection that may have to be made again.
                pub(super) async fn number(&self, sql: &str) -> i64 {
                    for _ in 0..100 {
                        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
                        if let Ok(row) = self.pool.fetch_one(sql).await {
                            return row.try_get(0).expect("a number");
                        }
                        tokio::time::sleep(super::PAUSE).await;
                    }
                    panic!("the database does not come back")
                }
            }

        }
    };
}

const PAUSE: Duration = Duration::from_millis(100);

book!(postgres);
book!(mysql);
