//! What the tests need of a place that keeps leases, SQL or Redis.

use idem_runtime::{Begun, ClaimError, HeldLease, IntoKey, Key, KeyError, Leases, RedisLeases};
use idem_tests::proxy::Proxy;
use redis::AsyncCommands as _;
use std::{
    env,
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(crate) const SCOPE: &str = "sms.paid";
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// What is written down of a piece of work, read by other means than the library's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) fence: i64,
    pub(crate) attempts: i64,
    pub(crate) done: bool,
    pub(crate) has_result: bool,
    /// Of the lease, in milliseconds; negative when it has run out.
    pub(crate) left: i64,
}

pub(crate) trait Place {
    async fn written(&self, fact: &str) -> Option<Written>;

    /// Moves the end of a lease, as if that time had gone by.
    async fn age(&self, fact: &str, by: Duration);

    /// Does the work once.
    async fn work(&self);

    /// How often the work was done.
    async fn works(&self) -> i64;

    /// Moves the end of the retention into the past; where that means that the record is gone, it is.
    async fn outlive(&self, fact: &str);

    /// Another client of the same place with one connection, behind a network that a test can break, or behind none.
    async fn client(&self, road: Option<&Proxy>, answer_timeout: Duration) -> impl Leases + Clone + use<Self>;

    /// What a network sees of a step: its SQL, or that Redis is to run a script.
    fn on_the_wire(&self, sql: &'static str) -> &'static str {
        sql
    }

    /// A network to the server, with a delay each way. There is none to a file.
    async fn road(&self, delay: Duration) -> Option<Proxy> {
        Some(Proxy::start(self.address()?, delay).await.unwrap())
    }

    /// Where the server listens.
    fn address(&self) -> Option<SocketAddr>;
}

pub(crate) fn key(fact: &str) -> Result<Key, KeyError> {
    Key::scope(SCOPE).part(fact).delivery("d-1").finish()
}

pub(crate) async fn begin(leases: &impl Leases, key: impl IntoKey) -> Result<Begun, ClaimError> {
    leases.begin(key, LEASE).await
}

pub(crate) async fn first(leases: &impl Leases, fact: &str) -> HeldLease {
    match begin(leases, key(fact)).await {
        Ok(Begun::First(held)) => held,
        other => panic!("not first: {other:?}"),
    }
}

macro_rules! sql_place {
    ($($module:ident)*) => { $(
        impl Place for idem_tests::$module::Lab {
            async fn written(&self, fact: &str) -> Option<Written> {
                use idem_tests::$module::{DIALECT, Dialect};
                use sqlx::{Executor as _, Row as _};
                let (left, is_null) = match DIALECT {
                    Dialect::Sqlite => (
                        "CAST(round((julianday(lease_until) - julianday('now')) * 86400000) AS INTEGER)",
                        ["done_at IS NOT NULL", "result IS NOT NULL"],
                    ),
                    Dialect::Postgres => (
                        "(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint",
                        ["(done_at IS NOT NULL)::int::bigint", "(result IS NOT NULL)::int::bigint"],
                    ),
                    Dialect::MySql => (
                        "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_until) DIV 1000",
                        ["done_at IS NOT NULL", "result IS NOT NULL"],
                    ),
                };
                let sql = format!(
                    "SELECT fence, attempts, {}, {}, {left} FROM idem_records_leases \
                     WHERE scope = '{SCOPE}' AND action_key = '{fact}'",
                    is_null[0], is_null[1]
                );
                let row = self.pool.fetch_optional(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await.unwrap()?;
                let number = |at: usize| row.try_get_unchecked::<i64, _>(at).unwrap();
                Some(Written {
                    fence: number(0),
                    attempts: number(1),
                    done: number(2) != 0,
                    has_result: number(3) != 0,
                    left: number(4),
                })
            }

            async fn age(&self, fact: &str, by: Duration) {
                shift(&self.pool.clone().into(), "lease_until", fact, by).await;
            }

            async fn work(&self) {
                let mut connection = self.pool.acquire().await.unwrap();
                idem_tests::$module::credit(&mut connection, "a", 1).await.unwrap();
            }

            async fn works(&self) -> i64 {
                self.balance("a").await
            }

            async fn outlive(&self, fact: &str) {
                shift(&self.pool.clone().into(), "keep_until", fact, Duration::from_hours(40 * 24)).await;
            }

            async fn client(&self, road: Option<&Proxy>, answer_timeout: Duration) -> impl Leases + Clone + use<> {
                let url = road.map_or_else(|| self.url.clone(), |road| road.in_url(&self.url));
                let builder = Self::builder().answer_timeout(answer_timeout).max_connections(1);
                builder.acquire_timeout(Duration::from_secs(1)).connect(&url).await.unwrap()
            }

            fn address(&self) -> Option<SocketAddr> {
                let (_, rest) = self.url.split_once('@')?;
                rest.split('/').next()?.parse().ok()
            }
        }
    )* };
}

sql_place!(sqlite postgres mysql);

enum AnyPool {
    Sqlite(sqlx::SqlitePool),
    Postgres(sqlx::PgPool),
    MySql(sqlx::MySqlPool),
}

impl From<sqlx::SqlitePool> for AnyPool {
    fn from(pool: sqlx::SqlitePool) -> Self {
        Self::Sqlite(pool)
    }
}

impl From<sqlx::PgPool> for AnyPool {
    fn from(pool: sqlx::PgPool) -> Self {
        Self::Postgres(pool)
    }
}

impl From<sqlx::MySqlPool> for AnyPool {
    fn from(pool: sqlx::MySqlPool) -> Self {
        Self::MySql(pool)
    }
}

/// Moves an instant of a row into the past.
async fn shift(pool: &AnyPool, column: &str, fact: &str, by: Duration) {
    let row = format!("WHERE scope = '{SCOPE}' AND action_key = '{fact}'");
    let by = by.as_secs();
    let shifted = match pool {
        AnyPool::Sqlite(pool) => {
            let sql = format!(
                "UPDATE idem_records_leases SET {column} = strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '-{by} seconds') {row}"
            );
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(pool).await.unwrap().rows_affected()
        }
        AnyPool::Postgres(pool) => {
            let sql = format!("UPDATE idem_records_leases SET {column} = {column} - interval '{by} seconds' {row}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(pool).await.unwrap().rows_affected()
        }
        AnyPool::MySql(pool) => {
            let sql = format!("UPDATE idem_records_leases SET {column} = {column} - INTERVAL {by} SECOND {row}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(pool).await.unwrap().rows_affected()
        }
    };
    assert_eq!(shifted, 1, "no row for {fact}");
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A namespace of its own on a Redis server, as the labs of the databases are.
#[derive(Debug)]
pub(crate) struct RedisLab {
    pub(crate) store: RedisLeases,
    pub(crate) namespace: String,
    pub(crate) url: String,
    client: redis::aio::ConnectionManager,
}

impl RedisLab {
    pub(crate) async fn new() -> Self {
        let url = env::var("IDEM_TEST_REDIS").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("idem_test_{now}_{}_{number}", std::process::id());
        let client = redis::Client::open(url.as_str()).unwrap();
        let client = redis::aio::ConnectionManager::new(client)
            .await
            .unwrap_or_else(|error| panic!("no Redis at {url} (IDEM_TEST_REDIS): {error}"));
        let store = RedisLeases::connect(&url, &namespace).await.expect("the leases connect");
        Self { store, namespace, url, client }
    }

    pub(crate) async fn close(self) {
        self.forget().await;
    }

    /// What a restart without persistence does, to this namespace only.
    pub(crate) async fn forget(&self) {
        let mut client = self.client.clone();
        let keys: Vec<String> = client.keys(format!("{{{}}}:*", self.namespace)).await.unwrap();
        for key in keys {
            let _: () = client.del(key).await.unwrap();
        }
    }

    pub(crate) fn name_of(&self, fact: &str) -> String {
        format!("{{{}}}:lease:{}:{SCOPE}/{fact}", self.namespace, SCOPE.len())
    }

    /// For how long a key is kept, in milliseconds.
    pub(crate) async fn kept_for(&self, fact: &str) -> i64 {
        self.client.clone().pttl(self.name_of(fact)).await.unwrap()
    }

    /// Puts something else where the work is kept.
    pub(crate) async fn damage(&self, fact: &str) {
        let _: () = self.client.clone().set(self.name_of(fact), "damaged").await.unwrap();
    }

    pub(crate) async fn field(&self, fact: &str, field: &str) -> Option<i64> {
        self.client.clone().hget(self.name_of(fact), field).await.unwrap()
    }

    fn index(&self) -> String {
        format!("{{{}}}:unfinished", self.namespace)
    }

    /// How much is in the index of unfinished work.
    pub(crate) async fn indexed(&self) -> i64 {
        self.client.clone().zcard(self.index()).await.unwrap()
    }

    fn work_key(&self) -> String {
        // Not of the leases' keys, so that it survives their loss.
        format!("work:{}", self.namespace)
    }
}

impl Place for RedisLab {
    async fn written(&self, fact: &str) -> Option<Written> {
        let mut client = self.client.clone();
        let fence = self.field(fact, "fence").await?;
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(&mut client).await.unwrap();
        Some(Written {
            fence,
            attempts: self.field(fact, "attempts").await.unwrap(),
            done: self.field(fact, "done").await.is_some(),
            has_result: client.hexists(self.name_of(fact), "result").await.unwrap(),
            left: self.field(fact, "until").await.unwrap() - seconds * 1000 - micros / 1000,
        })
    }

    async fn age(&self, fact: &str, by: Duration) {
        let mut client = self.client.clone();
        let by = i64::try_from(by.as_millis()).unwrap();
        let until: i64 = client.hincr(self.name_of(fact), "until", -by).await.unwrap();
        let member = format!("{}:{SCOPE}/{fact}", SCOPE.len());
        let _: () = client.zadd(self.index(), member, until).await.unwrap();
    }

    async fn work(&self) {
        let mut client = self.client.clone();
        let _: i64 = client.incr(self.work_key(), 1).await.unwrap();
        let _: () = client.expire(self.work_key(), 3600).await.unwrap();
    }

    async fn works(&self) -> i64 {
        let works: Option<i64> = self.client.clone().get(self.work_key()).await.unwrap();
        works.unwrap_or(0)
    }

    async fn outlive(&self, fact: &str) {
        let _: () = self.client.clone().del(self.name_of(fact)).await.unwrap();
    }

    async fn client(&self, road: Option<&Proxy>, answer_timeout: Duration) -> impl Leases + Clone + use<> {
        let url = road.map_or_else(|| self.url.clone(), |road| road.in_url(&self.url));
        let leases = RedisLeases::connect(&url, &self.namespace).await.unwrap();
        leases.answer_timeout(answer_timeout)
    }

    fn on_the_wire(&self, _: &'static str) -> &'static str {
        "EVALSHA"
    }

    fn address(&self) -> Option<SocketAddr> {
        self.url.split_once("://")?.1.parse().ok()
    }
}

/// Tests written once, and run on every SQL database and on Redis.
macro_rules! on_every_place {
    ($($tests:tt)*) => {
        idem_tests::on_every_database! { given {} $($tests)* }
        $crate::place::on_redis! { $($tests)* }
    };
}

/// The same without SQLite, for what takes a network.
macro_rules! on_every_remote_place {
    ($($tests:tt)*) => {
        mod remote {
            use super::*;
            idem_tests::on_every_server! { given {} $($tests)* }
            $crate::place::on_redis! { $($tests)* }
        }
    };
}

macro_rules! on_redis {
    ($($tests:tt)*) => {
        mod redis {
            #[allow(unused_imports)]
            use super::*;
            use $crate::place::RedisLab as Lab;
            idem_tests::on_every_database!(@tests [#[ignore = "needs Redis: ./scripts/test runs it"]] $($tests)*);
        }
    };
}

pub(crate) use {on_every_place, on_every_remote_place, on_redis};
