//! A gate in Redis.

mod link;
mod server;
mod value;

use super::{Begin, Finished, Gate, GateFuture, InFlight, Look, name::digest};
use crate::{
    error::ConfigurationError,
    key::{Key, hex},
    retention::Retention,
};
use link::{Kind, Link, Patience};
use redis::Pipeline;
use server::Server;
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use value::Value;

/// Takes a mark away if it is still there.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
/// How long [`RedisGate::connect`] waits for the first connection.
const FIRST_CONNECTION: Duration = Duration::from_secs(1);
/// The longest that Redis is told to keep anything.
const LONGEST: Duration = Retention::MAX.as_duration();

/// A gate in Redis, shared by all processes.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_runtime::{PgStore, gate::{MemoryGate, RedisGate}};
///
/// let gate = RedisGate::connect("redis://cache.internal/0", "shop").await?;
/// let store = PgStore::builder().gate(gate).connect("postgres://app@db.internal/shop").await?;
/// # Ok(())
/// # }
/// ```
///
/// **The namespace is one record table's.** Two databases, or two record tables, under one namespace would take each
/// other's actions for their own: an action done in one would be a duplicate in the other, and be lost.
///
/// Redis may be slow, down, flushed, full, failing over, or hold garbage: the store then decides. One warning says that
/// trouble begins, and one line that it is over. While it lasts, a delivery in each [`rest`](Self::rest) finds out whether
/// Redis is back; the others pay nothing. Connections are made in the background.
///
/// Keys are `idem:{namespace}:` and a hash of scope and key ([`redis_key`](Self::redis_key) tells which). Values
/// always expire: a gate needs no cleaning, and any eviction policy will do. TLS (`rediss://`) is a feature of the
/// application's own dependency on `redis`. The gate needs tokio, and on another runtime knows nothing.
///
/// Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct RedisGate {
    link: Arc<Link>,
    keep: Duration,
    patience: Patience,
    in_flight: Option<Duration>,
}

impl RedisGate {
    /// A gate in one Redis server: `redis://user:password@host:port/db`.
    ///
    /// `namespace` is 1 to 64 letters, digits, `_`, `.` and `-`. A server that does not answer is no error: the gate
    /// knows nothing until it does.
    ///
    /// # Errors
    /// [`ConfigurationError::Gate`] when the URL or the namespace cannot be used.
    pub async fn connect(url: &str, namespace: &str) -> Result<Self, ConfigurationError> {
        Self::over(Server::single(url)?, namespace).await
    }

    /// A gate in a Redis Cluster, of which some nodes are named.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[cfg(feature = "redis-cluster")]
    pub async fn cluster(
        urls: impl IntoIterator<Item = impl Into<String>>,
        namespace: &str,
    ) -> Result<Self, ConfigurationError> {
        Self::over(Server::cluster(urls.into_iter().map(Into::into).collect())?, namespace).await
    }

    /// A gate in the master that sentinels name.
    ///
    /// `sentinels` are their URLs (port 26379 as a rule). `master` is a URL with the master's name in the host's place, and
    /// with user, password and database as the servers want them: `redis://:secret@mymaster/0`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[cfg(feature = "redis-sentinel")]
    pub async fn sentinel(
        sentinels: impl IntoIterator<Item = impl Into<String>>,
        master: &str,
        namespace: &str,
    ) -> Result<Self, ConfigurationError> {
        Self::over(Server::sentinel(sentinels.into_iter().map(Into::into).collect(), master)?, namespace).await
    }

    async fn over(server: Server, namespace: &str) -> Result<Self, ConfigurationError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !(1..=64).contains(&namespace.len()) || !namespace.chars().all(plain) {
            return Err(ConfigurationError::Gate(format!(
                "`{}` cannot be a namespace: use 1 to 64 letters, digits, `_`, `.` and `-`",
                namespace.escape_debug()
            )));
        }
        let gate = Self {
            link: Link::new(namespace.to_owned(), server),
            keep: Duration::from_hours(24),
            patience: Patience { timeout: Duration::from_millis(50), rest: Duration::from_secs(1) },
            in_flight: None,
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Some(connecting) = gate.link.start_connecting(&runtime, gate.patience.rest)
        {
            // The attempt goes on when this is tired of waiting.
            let _ = tokio::time::timeout(FIRST_CONNECTION, connecting).await;
        }
        Ok(gate)
    }

    /// How long an action is remembered at most, one day by default. It is never remembered for longer than its record is
    /// sure to be there.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep.min(LONGEST);
        self
    }

    /// How long an answer of Redis is waited for, 50 milliseconds by default, so that a slow Redis costs little. (A store
    /// gives up on its gate after a second in any case.)
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.patience.timeout = timeout;
        self
    }

    /// How long Redis is left alone after it failed, one second by default.
    #[must_use]
    pub const fn rest(mut self, rest: Duration) -> Self {
        self.patience.rest = rest;
        self
    }

    /// Marks actions in flight, each for at most so long; off by default.
    ///
    /// Another delivery of the action is then told that it is [busy](crate::Busy::InFlight) at once, rather than wait for the
    /// claim on a database connection. It costs two trips to Redis a first delivery. A process that dies leaves its mark
    /// behind, and a redelivery is busy until the mark expires: choose little more than what a unit takes. A mark that
    /// expires too early does no harm.
    #[must_use]
    pub fn in_flight(mut self, expires: Duration) -> Self {
        self.in_flight = Some(expires.clamp(Duration::from_millis(1), LONGEST));
        self
    }

    /// The key in Redis under which an action is remembered.
    #[must_use]
    pub fn redis_key(&self, key: &Key) -> String {
        format!("idem:{}:{}", self.link.namespace(), hex(&digest(key)))
    }

    /// What is there, and for how long still. A value without an end is none of ours.
    async fn read(&self, name: &str) -> Option<(Value, Duration)> {
        let asked = Instant::now();
        let mut commands = redis::pipe();
        commands.cmd("GET").arg(name).cmd("PTTL").arg(name);
        let (bytes, millis): (Option<Vec<u8>>, i64) = self.link.ask(Kind::Read, &commands, self.patience).await?;
        let bytes = bytes?;
        let Some(value) = value::read(&bytes).filter(|_| millis != -1) else {
            self.link.not_ours(if millis == -1 { "a value that does not expire" } else { "a value of another form" });
            return None;
        };
        let left = Duration::from_millis(u64::try_from(millis).ok()?).saturating_sub(asked.elapsed());
        (!left.is_zero()).then_some((value, left))
    }

    async fn write<T: redis::FromRedisValue>(&self, commands: &Pipeline) -> Option<T> {
        self.link.ask(Kind::Write, commands, self.patience).await
    }
}

impl fmt::Debug for RedisGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisGate")
            .field("link", &self.link)
            .field("keep", &self.keep)
            .field("patience", &self.patience)
            .field("in_flight", &self.in_flight)
            .finish()
    }
}

impl Gate for RedisGate {
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look> {
        Box::pin(async move {
            match self.read(&self.redis_key(key)).await {
                Some((Value::Done(finished), left)) => Look::Finished { finished, left },
                Some((Value::Busy(_), _)) | None => Look::Unknown,
            }
        })
    }

    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()> {
        Box::pin(async move {
            let millis = millis(keep.min(self.keep));
            if millis > 0 {
                let mut commands = redis::pipe();
                commands.cmd("SET").arg(self.redis_key(key)).arg(value::done(finished)).arg("PX").arg(millis).ignore();
                self.write::<()>(&commands).await;
            }
        })
    }

    fn begin<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, Begin> {
        Box::pin(async move {
            let Some(expires) = self.in_flight else { return Begin::Go };
            let name = self.redis_key(key);
            let mut commands = redis::pipe();
            commands.cmd("SET").arg(&name).arg(value::busy(mine)).arg("NX").arg("PX").arg(millis(expires));
            match self.write::<(Option<String>,)>(&commands).await {
                Some((None,)) => {}
                Some((Some(_),)) | None => return Begin::Go,
            }
            match self.read(&name).await {
                Some((Value::Busy(by), retry_after)) => Begin::Taken { by, retry_after },
                // Finished in the meantime, or gone: for the store.
                Some((Value::Done(_), _)) | None => Begin::Go,
            }
        })
    }

    fn release<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, ()> {
        Box::pin(async move {
            if self.in_flight.is_some() {
                let mut commands = redis::pipe();
                commands.cmd("EVAL").arg(RELEASE).arg(1).arg(self.redis_key(key)).arg(value::busy(mine)).ignore();
                self.write::<()>(&commands).await;
            }
        })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()> {
        Box::pin(async move {
            let mut commands = redis::pipe();
            commands.cmd("DEL").arg(self.redis_key(key)).ignore();
            self.write::<()>(&commands).await;
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
