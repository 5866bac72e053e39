//! Leases in Redis (5 or later).
//!
//! A hash for each piece of work, `{namespace}:lease:<length of scope>:<scope>/<key>`, and a sorted set of what is not done,
//! `{namespace}:unfinished`. Each step is a script, so it is one step for Redis too; Redis' own clock decides. The braces
//! keep all keys of a namespace together, as a cluster wants it for scripts.

use super::{
    Begun, Leases, Resolution, Unfinished, UnfinishedWork,
    begin::begin,
    ledger::{Asking, Begin, Ledger, Owned, Query, Request},
    sealed, unfinished,
};
use crate::{
    error::{ClaimError, ConfigurationError, RedisError},
    key::{IntoKey, Key},
    log,
    retention::Retention,
    store::{Instant, LeaseRow, NOBODY},
    unit::{AttemptToken, Backoff, within},
};
use redis::{
    Client, ErrorKind, Script,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use std::{
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

/// How often a step is asked for before its failure is the answer.
const TRIES: u32 = 3;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Leases kept in Redis, for services that have no database of their own.
///
/// **Redis forgets** when it restarts without persistence, when it fails over to a replica that was behind, and when its
/// memory is full and its policy evicts keys. Work that was done then runs again when it is delivered again, and work that
/// is going on may be begun a second time. Where a repeat costs money keep leases in a SQL store; use Redis where the other
/// side recognises repeats ([`AtLeastOnceLease::idempotency_key`](crate::AtLeastOnceLease::idempotency_key)), with
/// `appendonly yes` and `maxmemory-policy noeviction`.
///
/// A done action is remembered for the [retention](Self::retention), and then forgotten; so is unfinished work that nobody
/// touched for so long. Cheap to clone; clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_runtime::{Begun, Key, Leases, RedisLeases, Retention};
/// use std::time::Duration;
///
/// let leases = RedisLeases::connect("redis://cache.internal", "shop").await?.retention(Retention::days(3));
/// let key = Key::scope("sms.paid").part("A1001").finish();
/// if let Begun::First(held) = leases.begin(key, Duration::from_secs(30)).await? {
///     // .. send the SMS ..
///     let outcome = held.complete::<_, std::io::Error>("sent").await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisLeases {
    server: Arc<Server>,
    namespace: Arc<str>,
    retention: Retention,
    answer_timeout: Duration,
}

struct Server {
    client: Client,
    /// Replaced when it gives no answer: a network that swallows answers does not break the connection.
    connection: Mutex<ConnectionManager>,
}

impl RedisLeases {
    /// Connects to a Redis server. The URL is that of the crate `redis`: `redis://user:password@host:6379/0`. Deliveries of
    /// one action have to meet in one namespace; different systems on one server take different ones.
    ///
    /// # Errors
    /// [`ConfigurationError::Redis`] when the namespace is not 1 to 64 letters, digits, `.`, `_` or `-`, when the URL is
    /// wrong, or when the server does not answer.
    pub async fn connect(url: &str, namespace: &str) -> Result<Self, ConfigurationError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !(1..=64).contains(&namespace.len()) || !namespace.chars().all(plain) {
            let why = format!("the namespace {namespace:?} must be 1 to 64 letters, digits, `.`, `_` or `-`");
            return Err(ConfigurationError::Redis(why));
        }
        let failed = |error: redis::RedisError| ConfigurationError::Redis(error.to_string());
        let client = Client::open(url).map_err(failed)?;
        let connection = Mutex::new(lazy_connection(&client).map_err(failed)?);
        let leases = Self {
            server: Arc::new(Server { client, connection }),
            namespace: namespace.into(),
            retention: Retention::DEFAULT,
            answer_timeout: ANSWER_TIMEOUT,
        };
        leases.run::<i64>(&PING, Vec::new(), Vec::new()).await.map_err(|error| match error {
            ClaimError::Redis(error) => ConfigurationError::Redis(error.source.to_string()),
            error => ConfigurationError::Redis(error.to_string()),
        })?;
        Ok(leases)
    }

    /// How long a done action is remembered, 30 days by default.
    #[must_use]
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// How long an answer of Redis is waited for, 3 seconds by default. A step is asked for three times, and a completion for
    /// ten times as long.
    #[must_use]
    pub const fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// As [`Store::unfinished`](crate::Store::unfinished).
    ///
    /// # Errors
    /// Awaited: [`ClaimError::Redis`].
    ///
    /// # Cancel safety
    /// It may be dropped at any await.
    pub fn unfinished(&self, older_than: Duration) -> UnfinishedWork {
        UnfinishedWork::new(Arc::new(self.clone()), older_than)
    }

    /// As [`Store::resolve`](crate::Store::resolve).
    ///
    /// # Errors
    /// [`ClaimError::Redis`].
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: it is settled or not.
    pub async fn resolve(&self, work: &Unfinished, resolution: Resolution) -> Result<bool, ClaimError> {
        unfinished::resolve(self, work, resolution).await
    }

    fn keys(&self, scope: &str, key: &str) -> Vec<String> {
        vec![format!("{{{}}}:lease:{}", self.namespace, member(scope, key)), self.index()]
    }

    fn index(&self) -> String {
        format!("{{{}}}:unfinished", self.namespace)
    }

    /// Runs a script, a few times where that helps. Scripts may run twice: each holds the attempt that it is run for.
    async fn run<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        keys: Vec<String>,
        arguments: Vec<Vec<u8>>,
    ) -> Result<T, ClaimError> {
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(key);
        }
        for argument in arguments {
            call.arg(argument);
        }
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
        let mut tries = 1;
        loop {
            let mut connection = self.server.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let error = match within(self.answer_timeout, call.invoke_async(&mut connection)).await {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(error)) => RedisError { retryable: is_retryable(&error), source: Box::new(error) },
                None => {
                    self.replace_connection();
                    let source = format!("it did not answer within {:?}", self.answer_timeout);
                    RedisError { retryable: true, source: source.into() }
                }
            };
            if !error.retryable || tries == TRIES {
                return Err(error.into());
            }
            tries += 1;
            log::lease_restarting(&error);
            backoff.pause().await;
        }
    }

    fn replace_connection(&self) {
        if let Ok(connection) = lazy_connection(&self.server.client) {
            *self.server.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
        }
    }

    async fn begin_script(&self, script: &Script, request: &Request, fence: Option<i64>) -> Result<Begin, ClaimError> {
        let key = &request.key;
        let fields = vec![
            request.attempt.as_bytes().to_vec(),
            number(request.lease.as_millis()),
            number(self.retention.as_duration().as_millis()),
            member(key.scope_name(), key.text()).into_bytes(),
            key.scope_name().into(),
            key.text().into(),
            optional(key.delivery_id().map(str::as_bytes)),
            optional(key.fingerprint().map(crate::key::Fingerprint::as_bytes)),
            optional(key.message().map(str::as_bytes)),
            fence.unwrap_or(0).to_string().into_bytes(),
        ];
        let reply: Reply = self.run(script, self.keys(key.scope_name(), key.text()), fields).await?;
        match reply.first().and_then(Option::as_deref) {
            Some(b"began") => Ok(Begin::Began { fence: integer(&reply, 1)?, attempts: integer(&reply, 2)? }),
            Some(b"row") => Ok(Begin::Row(Box::new(row(&reply[1..])?))),
            _ => Ok(Begin::Gone),
        }
    }
}

impl sealed::Sealed for RedisLeases {}

impl Leases for RedisLeases {
    fn begin(&self, key: impl IntoKey, lease: Duration) -> impl Future<Output = Result<Begun, ClaimError>> + Send {
        begin(Arc::new(self.clone()), key.into_key(), lease)
    }
}

impl Ledger for RedisLeases {
    fn insert<'a>(&'a self, request: &'a Request) -> Asking<'a, Begin> {
        Box::pin(self.begin_script(&INSERT, request, None))
    }

    fn take<'a>(&'a self, request: &'a Request, row: &'a LeaseRow) -> Asking<'a, Begin> {
        Box::pin(self.begin_script(&TAKE, request, Some(row.fence)))
    }

    fn renew<'a>(&'a self, owned: &'a Owned) -> Asking<'a, bool> {
        Box::pin(async move {
            let keys = self.keys(owned.key.scope_name(), owned.key.text());
            self.run(&RENEW, keys, self.of_owner(owned, None)).await
        })
    }

    fn complete<'a>(&'a self, owned: &'a Owned, result: Option<&'a [u8]>) -> Asking<'a, bool> {
        Box::pin(async move {
            let keys = self.keys(owned.key.scope_name(), owned.key.text());
            self.run(&COMPLETE, keys, self.of_owner(owned, result)).await
        })
    }

    fn release<'a>(&'a self, key: &'a Key, attempt: AttemptToken) -> Asking<'a, ()> {
        Box::pin(async move {
            let member = member(key.scope_name(), key.text()).into_bytes();
            let arguments = vec![attempt.as_bytes().to_vec(), NOBODY.to_vec(), member];
            self.run::<i64>(&RELEASE, self.keys(key.scope_name(), key.text()), arguments).await.map(|_| ())
        })
    }

    fn unfinished<'a>(&'a self, query: &'a Query) -> Asking<'a, Vec<LeaseRow>> {
        Box::pin(async move {
            let members: Vec<Vec<u8>> =
                self.run(&OVERDUE, vec![self.index()], vec![number(query.older_than.as_millis())]).await?;
            let mut named: Vec<(String, String)> = members.iter().filter_map(|member| parse_member(member)).collect();
            named.sort();
            let mut rows = Vec::new();
            for (scope, key) in named {
                if query.after.as_ref().is_some_and(|after| (&scope, &key) <= (&after.0, &after.1)) {
                    continue;
                }
                if rows.len() >= query.limit as usize {
                    break;
                }
                let arguments = vec![member(&scope, &key).into_bytes(), number(query.older_than.as_millis())];
                let reply: Reply = self.run(&LOOK, self.keys(&scope, &key), arguments).await?;
                if !reply.is_empty() {
                    rows.push(row(&reply)?);
                }
            }
            Ok(rows)
        })
    }

    fn resolve<'a>(&'a self, scope: &'a str, key: &'a str, fence: i64, resolution: Resolution) -> Asking<'a, bool> {
        Box::pin(async move {
            let arguments = vec![
                fence.to_string().into_bytes(),
                number(u128::from(resolution == Resolution::Done)),
                number(self.retention.as_duration().as_millis()),
                NOBODY.to_vec(),
                member(scope, key).into_bytes(),
            ];
            self.run(&RESOLVE, self.keys(scope, key), arguments).await
        })
    }

    fn patience(&self) -> Duration {
        self.answer_timeout.saturating_mul(10)
    }
}

impl RedisLeases {
    fn of_owner(&self, owned: &Owned, result: Option<&[u8]>) -> Vec<Vec<u8>> {
        let key = &owned.key;
        vec![
            owned.attempt.as_bytes().to_vec(),
            number(owned.lease.as_millis()),
            number(self.retention.as_duration().as_millis()),
            member(key.scope_name(), key.text()).into_bytes(),
            key.scope_name().into(),
            key.text().into(),
            optional(key.delivery_id().map(str::as_bytes)),
            optional(key.fingerprint().map(crate::key::Fingerprint::as_bytes)),
            optional(key.message().map(str::as_bytes)),
            owned.fence.to_string().into_bytes(),
            owned.attempts.to_string().into_bytes(),
            optional(result),
        ]
    }
}

impl fmt::Debug for RedisLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLeases")
            .field("namespace", &self.namespace)
            .field("retention", &self.retention)
            .field("answer_timeout", &self.answer_timeout)
            .finish_non_exhaustive()
    }
}

/// It connects when it is used, and again when it was lost; how long that may take is bounded around each step.
fn lazy_connection(client: &Client) -> Result<ConnectionManager, redis::RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(ANSWER_TIMEOUT))
        .set_response_timeout(None);
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}

fn is_retryable(error: &redis::RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => true,
        ErrorKind::Server(_) | ErrorKind::Extension => matches!(
            error.code(),
            Some(
                "LOADING"
                    | "BUSY"
                    | "TRYAGAIN"
                    | "CLUSTERDOWN"
                    | "MASTERDOWN"
                    | "READONLY"
                    | "OOM"
                    | "MISCONF"
                    | "NOREPLICAS"
            )
        ),
        _ => error.is_connection_dropped() || error.is_timeout(),
    }
}

type Reply = Vec<Option<Vec<u8>>>;

/// The name of an action inside a namespace. With the scope's length, so that no two have one name.
fn member(scope: &str, key: &str) -> String {
    format!("{}:{scope}/{key}", scope.len())
}

fn parse_member(member: &[u8]) -> Option<(String, String)> {
    let (length, rest) = std::str::from_utf8(member).ok()?.split_once(':')?;
    let (scope, rest) = rest.split_at_checked(length.parse().ok()?)?;
    Some((scope.to_owned(), rest.strip_prefix('/')?.to_owned()))
}

fn number(number: u128) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Nothing is not the same as an empty text.
fn optional(bytes: Option<&[u8]>) -> Vec<u8> {
    bytes.map_or(Vec::new(), |bytes| [b"+", bytes].concat())
}

fn row(reply: &[Option<Vec<u8>>]) -> Result<LeaseRow, ClaimError> {
    let text = |at: usize| reply.get(at).cloned().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let bytes = |at: usize| reply.get(at).cloned().flatten();
    Ok(LeaseRow {
        scope: text(0).unwrap_or_default(),
        key: text(1).unwrap_or_default(),
        fence: integer(reply, 2)?,
        attempt: bytes(3).unwrap_or_default(),
        attempts: integer(reply, 4)?,
        delivery_id: text(5),
        fingerprint: bytes(6),
        message: text(7),
        result: bytes(8),
        begun_at: Instant(integer(reply, 9)?),
        lease_until: Instant(integer(reply, 10)?),
        is_done: bytes(11).is_some(),
        keep_until: Instant(integer(reply, 12)?),
        now: Instant(integer(reply, 13)?),
    })
}

fn integer(reply: &[Option<Vec<u8>>], at: usize) -> Result<i64, ClaimError> {
    let text = reply.get(at).and_then(Option::as_deref).and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let source = "a lease in Redis is damaged: something else writes under its keys".into();
        RedisError { retryable: false, source }.into()
    })
}

fn script(body: &str) -> Script {
    Script::new(&format!("{COMMON}{body}"))
}

static PING: LazyLock<Script> = LazyLock::new(|| Script::new("return 1"));
static INSERT: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/insert.lua")));
static TAKE: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/take.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/renew.lua")));
static COMPLETE: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/complete.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/release.lua")));
static OVERDUE: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/overdue.lua")));
static LOOK: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/look.lua")));
static RESOLVE: LazyLock<Script> = LazyLock::new(|| script(include_str!("redis/resolve.lua")));
const COMMON: &str = include_str!("redis/common.lua");

#[cfg(test)]
mod tests {
    use super::{member, parse_member};

    #[test]
    fn members_are_unambiguous_and_can_be_read() {
        for (scope, key) in [("a", "b/c"), ("a/b", "c"), ("短信", "1:2/3"), ("s", "")] {
            assert_eq!(parse_member(member(scope, key).as_bytes()), Some((scope.to_owned(), key.to_owned())));
        }
        assert_ne!(member("a", "b/c"), member("a/b", "c"));
        for damaged in ["", "x", "9:a/b", "1:ab", "-1:a/b", "1:短/b"] {
            assert_eq!(parse_member(damaged.as_bytes()), None, "{damaged}");
        }
    }
}
