use super::{
    reading::{Reader, Reading},
    scripts,
    settle::Place,
};
use crate::consume::{Adapter, BrokerError, Capabilities, Horizon, Plan, StartError};
use redis::{
    Client, InfoDict, RedisError,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use std::{collections::HashMap, sync::Arc, time::Duration};

const LEASE: Duration = Duration::from_secs(30);
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
const DELIVERY_LIMIT: u32 = 100;
const BODY: &str = "payload";
/// How long a command may take.
const ANSWER: Duration = Duration::from_secs(5);

/// A group of a stream.
#[derive(Clone)]
pub struct Source {
    client: Client,
    pub(super) stream: String,
    group: String,
    pub(super) consumer: Option<String>,
    pub(super) dead_letter: Option<String>,
    pub(super) declares: bool,
    pub(super) lease: Duration,
    pub(super) body: String,
    pub(super) deletes: bool,
    pub(super) delivery_limit: u32,
}

impl Source {
    /// The group `group` of `stream`, for [`Consumer::of`](crate::consume::Consumer::of).
    pub fn new(client: Client, stream: impl Into<String>, group: impl Into<String>) -> Self {
        Self {
            client,
            stream: stream.into(),
            group: group.into(),
            consumer: None,
            dead_letter: None,
            declares: false,
            lease: LEASE,
            body: BODY.to_owned(),
            deletes: false,
            delivery_limit: DELIVERY_LIMIT,
        }
    }

    /// A connection for commands that are answered at once.
    pub(super) async fn connect(&self) -> Result<ConnectionManager, BrokerError> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(ANSWER))
            .set_response_timeout(Some(ANSWER))
            .set_number_of_retries(1)
            .set_max_delay(Duration::from_secs(1));
        ConnectionManager::new_with_config(self.client.clone(), config)
            .await
            .map_err(|error| BrokerError::new("connecting to Redis", error))
    }

    /// The set of due times.
    fn retries(&self) -> String {
        format!("{}:idem-retry:{}", self.stream, self.group)
    }

    fn unsafe_because(&self, reason: impl Into<String>) -> StartError {
        StartError::Unsafe { from: self.source(), reason: reason.into() }
    }

    /// What can be said before the server is asked.
    fn check_plan(&self, plan: &Plan) -> Result<(), StartError> {
        let refuse = |reason: String| Err(self.unsafe_because(reason));
        if self.lease < SHORTEST_LEASE {
            return refuse(format!(
                "a lease of {:?} takes messages from consumers that are at work: at least {SHORTEST_LEASE:?}",
                self.lease
            ));
        }
        if self.consumer.as_deref().is_some_and(|name| name.is_empty() || name == scripts::WAITING) {
            return refuse(format!(
                "a consumer cannot have the name `{}`",
                self.consumer.as_deref().unwrap_or_default()
            ));
        }
        if self.dead_letter.as_ref() == Some(&self.stream) {
            return refuse("its dead letters would come back to it: name another stream".to_owned());
        }
        let Some(attempts) = plan.max_attempts else { return Ok(()) };
        if self.dead_letter.is_none() {
            return refuse(
                "messages that fail too often have nowhere to go: name a stream with `.dead_letter(..)`, or try for ever \
                 with `.unlimited_attempts()`"
                    .to_owned(),
            );
        }
        if self.delivery_limit < attempts {
            return refuse(format!(
                "a delivery limit of {} ends messages before their {attempts} attempts: raise `.delivery_limit(..)`, or \
                 lower `.max_attempts(..)`",
                self.delivery_limit
            ));
        }
        Ok(())
    }

    /// Whether the server keeps what it is given.
    async fn check_server(&self, commands: &mut ConnectionManager) -> Result<(), StartError> {
        let info: InfoDict = ask(commands, redis::cmd("INFO").arg("default")).await?;
        let told = |name: &str| info.get::<String>(name).unwrap_or_default();
        if told("cluster_enabled") == "1" {
            return Err(self.unsafe_because(
                "this is a Redis Cluster, and the adapter speaks to one server: use a Redis that is none for the stream",
            ));
        }
        let version = told("redis_version");
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < (6, 2) {
            return Err(self.unsafe_because(format!("Redis {version} is too old: 6.2 or later is needed")));
        }
        let policy = told("maxmemory_policy");
        if policy.is_empty() {
            self.warn("the server does not say its maxmemory-policy: with another one than noeviction messages vanish");
        } else if policy != "noeviction" {
            return Err(self.unsafe_because(format!(
                "the server's maxmemory-policy is {policy}, so that it throws streams away when memory is short: set it to \
                 noeviction"
            )));
        }
        if told("aof_enabled") == "0" {
            let mut saves = redis::cmd("CONFIG");
            let saves: Result<HashMap<String, String>, _> = saves.arg("GET").arg("save").query_async(commands).await;
            // Where it may not be asked, nothing is known.
            if saves.is_ok_and(|saves| saves.get("save").is_none_or(String::is_empty)) {
                self.warn("kept in memory only: a server that is started again has lost its messages");
            }
        }
        Ok(())
    }

    fn warn(&self, what: &str) {
        tracing::warn!(target: "idem", { idem.source = self.source() }, "{what}");
    }

    /// Whether the keys are what they should be.
    async fn check_keys(&self, commands: &mut ConnectionManager) -> Result<(), StartError> {
        let retries = self.retries();
        let keys = [(Some(&self.stream), "stream"), (self.dead_letter.as_ref(), "stream"), (Some(&retries), "zset")];
        for (key, wanted) in keys.into_iter().filter_map(|(key, wanted)| Some((key?, wanted))) {
            let found: String = ask(commands, redis::cmd("TYPE").arg(key)).await?;
            if found != wanted && found != "none" {
                return Err(self.unsafe_because(format!("`{key}` is a {found} and no {wanted}: use another name")));
            }
        }
        Ok(())
    }

    async fn see_to_group(&self, commands: &mut ConnectionManager) -> Result<(), StartError> {
        let mut look = redis::cmd("XPENDING");
        look.arg(&self.stream).arg(&self.group);
        let looked: Result<redis::Value, RedisError> = look.query_async(commands).await;
        let missing = match looked {
            Ok(_) => false,
            Err(error) if error.code() == Some("NOGROUP") => true,
            Err(error) => return Err(BrokerError::new(format!("looking for `{}`", self.source()), error).into()),
        };
        if !missing {
            return Ok(());
        }
        if !self.declares {
            return Err(self.unsafe_because(format!(
                "the stream `{}` has no group `{}`: create it, or let this consumer `.declare()` it",
                self.stream, self.group
            )));
        }
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(&self.stream).arg(&self.group).arg("0").arg("MKSTREAM");
        match create.query_async::<()>(commands).await {
            Ok(()) => Ok(()),
            // Another consumer was faster.
            Err(error) if error.code() == Some("BUSYGROUP") => Ok(()),
            Err(error) => Err(BrokerError::new(format!("declaring `{}`", self.source()), error).into()),
        }
    }

    /// What an earlier process by this name held does not wait for the end of its lease.
    async fn inherit(&self, commands: &mut ConnectionManager, consumer: &str) -> Result<(), BrokerError> {
        let retries = self.retries();
        loop {
            let mut inherit = scripts::INHERIT.key(&self.stream);
            inherit.key(&retries).arg(&self.group).arg(consumer);
            let found = inherit.invoke_async::<u64>(commands).await;
            if found.map_err(|error| BrokerError::new(format!("taking over `{consumer}`"), error))? == 0 {
                return Ok(());
            }
        }
    }
}

async fn ask<T: redis::FromRedisValue>(
    commands: &mut ConnectionManager,
    command: &redis::Cmd,
) -> Result<T, BrokerError> {
    command.query_async(commands).await.map_err(|error| BrokerError::new("looking at the server", error))
}

/// A name that no other process has.
fn fresh_name() -> Result<String, BrokerError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| BrokerError::new("making a name", error.to_string()))?;
    Ok(format!("idem-{}-{:016x}", std::process::id(), u64::from_le_bytes(random)))
}

/// An entry comes again when nobody has worked on it for a lease, after each delivery that was waited out to its end.
fn horizon(plan: &Plan, lease: Duration) -> Horizon {
    let each = lease.saturating_add(plan.patience);
    let (deliveries, pauses) = match (plan.max_attempts, plan.longest_backoff()) {
        (Some(attempts), Some(pauses)) => (attempts, pauses),
        _ => (2, plan.steps.last().copied().unwrap_or_default()),
    };
    Horizon {
        longest: each.saturating_mul(deliveries).saturating_add(pauses),
        because: format!(
            "{deliveries} deliveries of {:?} of patience and a lease of {lease:?} each, and {pauses:?} of pauses between \
             them",
            plan.patience
        ),
    }
}

impl Adapter for Source {
    type Subscription = Reading;

    const BROKER: &'static str = "Redis Streams";
    const CAPABILITIES: Capabilities = Capabilities {
        native_delay: false,
        native_dead_letter: false,
        // Not XACK itself, which takes an ack from anybody: the script around it.
        fenced_ack: true,
        ordered: true,
        exact_attempts: true,
    };

    fn source(&self) -> String {
        format!("{}/{}", self.stream, self.group)
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        self.check_plan(plan)?;
        let mut commands = self.connect().await?;
        self.check_server(&mut commands).await?;
        self.check_keys(&mut commands).await?;
        self.see_to_group(&mut commands).await?;
        let consumer = match &self.consumer {
            Some(name) => {
                self.inherit(&mut commands, name).await?;
                name.clone()
            }
            None => fresh_name()?,
        };
        let source = self.source();
        let retries = self.retries();
        let delivery_limit = self.dead_letter.is_some().then_some(self.delivery_limit);
        let place = Arc::new(Place {
            commands,
            stream: self.stream,
            group: self.group,
            consumer,
            retries,
            dead_letter: self.dead_letter,
            body: self.body,
            lease: self.lease,
            deletes: self.deletes,
        });
        let reader = Reader { client: self.client, place, source, declares: self.declares, delivery_limit };
        Ok(Reading::start(reader, horizon(plan, self.lease), self.consumer.is_none(), plan.in_flight))
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("stream", &self.stream).field("group", &self.group).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{fresh_name, horizon};
    use crate::consume::Plan;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn every_start_has_a_name_of_its_own() {
        assert_ne!(fresh_name().unwrap(), fresh_name().unwrap());
    }

    #[test]
    fn the_horizon_is_that_of_the_deliveries() {
        let mut plan = Plan {
            concurrency: 1,
            in_flight: 1,
            max_attempts: Some(3),
            steps: vec![SECOND, 10 * SECOND],
            ordered: false,
            patience: 100 * SECOND,
            grace: SECOND,
        };
        assert_eq!(horizon(&plan, 30 * SECOND).longest, (3 * 130 + 1 + 10) * SECOND);
        plan.max_attempts = None;
        assert_eq!(horizon(&plan, 30 * SECOND).longest, (2 * 130 + 10) * SECOND);
    }
}
