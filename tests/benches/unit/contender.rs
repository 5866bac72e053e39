//! What is measured: ways to handle a delivery exactly once, written once for every database.

use std::time::Duration;

/// A way to handle a delivery, and which delivery it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// By hand, a connection of a pool with sqlx's defaults.
    Pool,
    /// By hand, on a connection that the worker keeps.
    Held,
    /// `Store::connect`, `store.once`.
    Once,
    /// `Store::connect`, `#[idempotent]`.
    Handler,
    /// `Store::new` over a pool with sqlx's defaults, `store.once`.
    Over,
    /// A repeat, as `Pool`.
    RepeatPool,
    /// A repeat, as `Pool`, that reads what is recorded of the first time.
    RepeatPoolRead,
    /// A repeat, as `Held`.
    RepeatHeld,
    /// A repeat, as `Once`.
    RepeatOnce,
    /// A repeat, as `Over`.
    RepeatOver,
}

impl Contender {
    pub(crate) const ALL: [Self; 10] = [
        Self::Pool,
        Self::Held,
        Self::Once,
        Self::Handler,
        Self::Over,
        Self::RepeatPool,
        Self::RepeatPoolRead,
        Self::RepeatHeld,
        Self::RepeatOnce,
        Self::RepeatOver,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Pool => "by hand, pool.begin()",
            Self::Held => "by hand, held connection",
            Self::Once => "Store::connect, once",
            Self::Handler => "Store::connect, #[idempotent]",
            Self::Over => "Store::new(pool), once",
            Self::RepeatPool => "repeat by hand, pool.begin()",
            Self::RepeatPoolRead => "repeat by hand, and reads the first",
            Self::RepeatHeld => "repeat by hand, held connection",
            Self::RepeatOnce => "repeat, Store::connect, once",
            Self::RepeatOver => "repeat, Store::new(pool), once",
        }
    }

    pub(crate) const fn is_repeat(self) -> bool {
        matches!(self, Self::RepeatPool | Self::RepeatPoolRead | Self::RepeatHeld | Self::RepeatOnce | Self::RepeatOver)
    }

    /// What its ratios are to: `pool.begin()` and the held connection, for the same kind of delivery.
    pub(crate) const fn references(self) -> [Self; 2] {
        if self.is_repeat() { [Self::RepeatPool, Self::RepeatHeld] } else { [Self::Pool, Self::Held] }
    }
}

/// A payment callback.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    pub(crate) order_no: String,
    pub(crate) status: &'static str,
    pub(crate) notify_id: String,
    pub(crate) account: String,
}

/// The contenders on one database over one network.
pub(crate) trait Arena: Send + Sync + 'static {
    /// Handles one delivery; says whether it was the first.
    fn handle(
        &self,
        contender: Contender,
        worker: usize,
        payment: &Payment,
    ) -> impl Future<Output = anyhow::Result<bool>> + Send;
}

/// How long background work of a unit (a connection on its way back into the pool) may last.
pub(crate) fn quiet(delay: Duration) -> Duration {
    delay * 8 + Duration::from_millis(4)
}

macro_rules! contenders {
    ($module:ident { $($sql:tt)* }) => {
        pub(crate) mod $module {
            use super::{Arena, Contender, Payment};
            use idem_runtime::{Key, Outcome, Store, idempotent};
            use idem_tests::$module::{Conn, Db, Pool, PoolOptions};
            pub(crate) use idem_tests::$module::{DIALECT, Lab};
            use sqlx::{Connection as _, Row as _, Transaction};
            use tokio::sync::Mutex;

            $($sql)*

            pub(crate) struct Contenders {
                pool: Pool,
                held: Vec<Mutex<Conn>>,
                store: Db,
                over: Db,
            }

            /// Tables for what is written by hand, and an account for each worker.
            pub(crate) async fn prepare(lab: &Lab, workers: usize) -> anyhow::Result<()> {
                sqlx::raw_sql(CREATE).execute(&lab.pool).await?;
                let open = DIALECT.sql("INSERT INTO accounts VALUES (?, 0)");
                for worker in 0..workers {
                    sqlx::query(sqlx::AssertSqlSafe(open.clone())).bind(worker.to_string()).execute(&lab.pool).await?;
                }
                Ok(())
            }

            pub(crate) async fn version(lab: &Lab) -> anyhow::Result<String> {
                Ok(sqlx::query_scalar(VERSION).fetch_one(&lab.pool).await?)
            }

            impl Contenders {
                pub(crate) async fn connect(url: &str, workers: usize) -> anyhow::Result<Self> {
                    let mut held = Vec::new();
                    for _ in 0..workers {
                        held.push(Mutex::new(Conn::connect(url).await?));
                    }
                    Ok(Self {
                        pool: PoolOptions::new().connect(url).await?,
                        held,
                        store: Store::connect(url).await?,
                        over: Store::new(PoolOptions::new().connect(url).await?),
                    })
                }

                pub(crate) async fn close(self) {
                    for pool in [&self.pool, self.store.pool(), self.over.pool()] {
                        pool.close().await;
                    }
                }
            }

            impl Arena for Contenders {
                async fn handle(&self, contender: Contender, worker: usize, payment: &Payment) -> anyhow::Result<bool> {
                    match contender {
                        Contender::Pool | Contender::RepeatPool => {
                            by_hand(self.pool.begin().await?, payment, false).await
                        }
                        Contender::RepeatPoolRead => by_hand(self.pool.begin().await?, payment, true).await,
                        Contender::Held | Contender::RepeatHeld => {
                            by_hand(self.held[worker].lock().await.begin().await?, payment, false).await
                        }
                        Contender::Once | Contender::RepeatOnce => once(&self.store, payment).await,
                        Contender::Over | Contender::RepeatOver => once(&self.over, payment).await,
                        Contender::Handler => Ok(matches!(on_payment(&self.store, payment).await?, Outcome::First(()))),
                    }
                }
            }

            async fn by_hand(
                mut transaction: Transaction<'_, <Conn as sqlx::Connection>::Database>,
                payment: &Payment,
                read: bool,
            ) -> anyhow::Result<bool> {
                let key = format!("payment:{}:{}", payment.order_no, payment.status);
                let claim = sqlx::query(CLAIM).bind(&key).bind(&payment.notify_id).execute(&mut *transaction).await;
                let first = match claim {
                    Ok(done) => done.rows_affected() == 1,
                    Err(sqlx::Error::Database(error)) if error.is_unique_violation() => false,
                    Err(error) => return Err(error.into()),
                };
                if first {
                    credit(&mut transaction, payment).await?;
                    transaction.commit().await?;
                } else {
                    if read {
                        let row = sqlx::query(READ).bind(&key).fetch_one(&mut *transaction).await?;
                        let (_at, _by): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
                    }
                    transaction.rollback().await?;
                }
                Ok(first)
            }

            async fn once(store: &Db, payment: &Payment) -> anyhow::Result<bool> {
                let key = Key::scope("payment")
                    .part(&payment.order_no)
                    .text(":")
                    .part(payment.status)
                    .delivery(&payment.notify_id)
                    .finish();
                Ok(matches!(store.once(key, async |db| credit(db, payment).await).await?, Outcome::First(())))
            }

            #[idempotent(key = payment.order_no + ":" + payment.status, store = db, delivery = payment.notify_id)]
            async fn on_payment(db: &mut Conn, payment: &Payment) -> Result<(), sqlx::Error> {
                credit(db, payment).await
            }

            /// The business write, the same for all.
            async fn credit(db: &mut Conn, payment: &Payment) -> Result<(), sqlx::Error> {
                sqlx::query(CREDIT).bind(&payment.account).execute(db).await.map(|_| ())
            }
        }
    };
}

contenders!(sqlite {
    pub(crate) const CREDITED: &str = "SELECT sum(balance) FROM accounts";
    const VERSION: &str = "SELECT 'SQLite ' || sqlite_version()";
    const CREATE: &str = "CREATE TABLE done (action_key TEXT NOT NULL PRIMARY KEY, delivery_id TEXT NOT NULL, \
        done_at INTEGER NOT NULL DEFAULT (unixepoch())) WITHOUT ROWID";
    const CLAIM: &str = "INSERT INTO done (action_key, delivery_id) VALUES (?, ?) ON CONFLICT DO NOTHING";
    const READ: &str = "SELECT done_at, delivery_id FROM done WHERE action_key = ?";
    const CREDIT: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = ?";
});

contenders!(postgres {
    pub(crate) const CREDITED: &str = "SELECT sum(balance)::bigint FROM accounts";
    const VERSION: &str = "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)";
    const CREATE: &str = "CREATE TABLE done (action_key text NOT NULL PRIMARY KEY, delivery_id text NOT NULL, \
        done_at timestamptz NOT NULL DEFAULT now())";
    const CLAIM: &str = "INSERT INTO done (action_key, delivery_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    const READ: &str = "SELECT extract(epoch FROM done_at)::bigint, delivery_id FROM done WHERE action_key = $1";
    const CREDIT: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = $1";
});

contenders!(mysql {
    pub(crate) const CREDITED: &str = "SELECT CAST(sum(balance) AS SIGNED) FROM accounts";
    const VERSION: &str = "SELECT CAST(CONCAT(IF(VERSION() LIKE '%Maria%', 'MariaDB ', 'MySQL '), \
        SUBSTRING_INDEX(VERSION(), '-', 1)) AS CHAR)";
    const CREATE: &str = "CREATE TABLE done (action_key VARCHAR(255) COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, \
        delivery_id VARCHAR(255) NOT NULL, done_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) \
        ENGINE = InnoDB DEFAULT CHARSET utf8mb4";
    // Not INSERT IGNORE, which takes other errors for a duplicate too.
    const CLAIM: &str = "INSERT INTO done (action_key, delivery_id) VALUES (?, ?)";
    const READ: &str = "SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', done_at), delivery_id FROM done WHERE action_key = ?";
    const CREDIT: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = ?";
});
