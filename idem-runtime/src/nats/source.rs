use super::{message, pull::Reading, settle::Place};
use crate::consume::{Adapter, BrokerError, Capabilities, Horizon, Plan, StartError};
use async_nats::jetstream::{
    Context, ErrorCode,
    consumer::{AckPolicy, Config, PullConsumer, pull},
    context::{GetStreamByNameErrorKind, GetStreamErrorKind},
    stream::{self, ConsumerErrorKind, StorageType},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// As many as the server has by default.
const MAX_ACK_PENDING: usize = 1000;
const ACK_WAIT: Duration = Duration::from_secs(30);
const DELIVERY_LIMIT: u32 = 100;

/// A durable pull consumer of a stream.
#[derive(Debug)]
pub struct Source {
    pub(super) context: Context,
    stream: String,
    durable: String,
    pub(super) dead_letter: Option<String>,
    pub(super) declares: bool,
    pub(super) filter: Option<String>,
    pub(super) ack_wait: Option<Duration>,
    pub(super) max_ack_pending: Option<usize>,
    pub(super) delivery_limit: u32,
}

impl Source {
    /// The durable pull consumer `durable` of `stream`, for [`Consumer::of`](crate::consume::Consumer::of).
    pub fn new(context: Context, stream: impl Into<String>, durable: impl Into<String>) -> Self {
        Self {
            context,
            stream: stream.into(),
            durable: durable.into(),
            dead_letter: None,
            declares: false,
            filter: None,
            ack_wait: None,
            max_ack_pending: None,
            delivery_limit: DELIVERY_LIMIT,
        }
    }

    fn unsafe_because(&self, reason: impl Into<String>) -> StartError {
        StartError::Unsafe { from: self.source(), reason: reason.into() }
    }

    /// What can be said before the server is asked.
    fn check_plan(&self, plan: &Plan) -> Result<(), StartError> {
        let Some(attempts) = plan.max_attempts else { return Ok(()) };
        if self.dead_letter.is_none() {
            return Err(self.unsafe_because(
                "messages that fail too often have nowhere to go: name a subject with `.dead_letter(..)`, or try for \
                 ever with `.unlimited_attempts()`",
            ));
        }
        if self.delivery_limit < attempts {
            return Err(self.unsafe_because(format!(
                "a delivery limit of {} ends messages before their {attempts} attempts: raise `.delivery_limit(..)`, or \
                 lower `.max_attempts(..)`",
                self.delivery_limit
            )));
        }
        Ok(())
    }

    async fn see_to_stream(&self) -> Result<stream::Config, StartError> {
        match self.context.get_stream(&self.stream).await {
            Ok(stream) => Ok(stream.cached_info().config.clone()),
            Err(error) if matches!(error.kind(), GetStreamErrorKind::Request) => {
                Err(BrokerError::new(format!("looking for the stream `{}`", self.stream), error).into())
            }
            Err(error) => {
                Err(self.unsafe_because(format!("the stream `{}` cannot be used ({error}): create it", self.stream)))
            }
        }
    }

    /// A dead letter must be stored, and must not come back to this consumer.
    async fn see_to_dead_letter(&self, live: &Config) -> Result<(), StartError> {
        let Some(subject) = &self.dead_letter else { return Ok(()) };
        if subject.split('.').any(|token| matches!(token, "" | "*" | ">")) {
            return Err(self.unsafe_because(format!(
                "`{subject}` is no subject that a dead letter can be sent to: write one without wildcards and empty parts, such \
                 as `dead.deduct`"
            )));
        }
        let stream = match self.context.stream_by_subject(subject).await {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), GetStreamByNameErrorKind::Request) => {
                return Err(BrokerError::new(format!("looking for the stream of `{subject}`"), error).into());
            }
            Err(_) => {
                return Err(self.unsafe_because(format!(
                    "no stream captures the subject `{subject}`, so its dead letters would be lost: create a stream for it"
                )));
            }
        };
        let filters = live.filter_subjects.iter().chain(Some(&live.filter_subject)).filter(|filter| !filter.is_empty());
        let mut filters = filters.peekable();
        let all = filters.peek().is_none();
        if stream == self.stream && (all || filters.any(|filter| message::lets_through(filter, subject))) {
            return Err(self.unsafe_because(format!(
                "its dead letters under `{subject}` go to the consumer itself: use a stream of their own for them, or a \
                 `.filter_subject(..)` that leaves them out"
            )));
        }
        Ok(())
    }

    async fn look(&self) -> Result<Option<Config>, StartError> {
        let found = self.context.get_consumer_from_stream::<Config, _, _>(&self.durable, &self.stream).await;
        match found {
            Ok(consumer) => Ok(Some(consumer.cached_info().config.clone())),
            Err(error) => match error.kind() {
                ConsumerErrorKind::JetStream(told) if told.error_code() == ErrorCode::CONSUMER_NOT_FOUND => Ok(None),
                ConsumerErrorKind::JetStream(_) | ConsumerErrorKind::InvalidName => Err(self.unsafe_because(format!(
                    "the consumer `{}` cannot be used ({error}): correct its name, or what this account may do",
                    self.durable
                ))),
                _ => Err(BrokerError::new(format!("looking for the consumer `{}`", self.source()), error).into()),
            },
        }
    }

    /// Makes the consumer, or changes it to what was asked for.
    async fn declare(&self, plan: &Plan, found: Option<Config>) -> Result<(), StartError> {
        let mut config = found.unwrap_or_else(|| Config {
            durable_name: Some(self.durable.clone()),
            ack_wait: ACK_WAIT,
            max_ack_pending: pending(MAX_ACK_PENDING.max(plan.in_flight)),
            ..Config::default()
        });
        config.ack_policy = AckPolicy::Explicit;
        config.max_deliver = -1;
        // It goes by deliveries, and wants them limited.
        config.backoff.clear();
        if let Some(filter) = &self.filter {
            // Not `filter_subjects`: a server before 2.10 leaves that out without a word, and delivers everything.
            config.filter_subject.clone_from(filter);
            config.filter_subjects.clear();
        }
        if let Some(wait) = self.ack_wait {
            config.ack_wait = wait;
        }
        if let Some(most) = self.max_ack_pending {
            config.max_ack_pending = pending(most);
        }
        match self.context.create_consumer_on_stream(config, &self.stream).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ConsumerErrorKind::JetStream(_) | ConsumerErrorKind::InvalidName) => {
                Err(self.unsafe_because(format!(
                    "the consumer `{}` cannot be declared ({error}): leave `.declare()` out to keep it as it is, or \
                     delete it",
                    self.durable
                )))
            }
            Err(error) => Err(BrokerError::new(format!("declaring the consumer `{}`", self.source()), error).into()),
        }
    }

    /// Whether the consumer as the server has it loses nothing.
    fn check(&self, live: &Config, plan: &Plan) -> Result<(), StartError> {
        let refuse = |reason: String| Err(self.unsafe_because(reason));
        if live.ack_policy != AckPolicy::Explicit {
            return refuse(format!(
                "its ack policy is {:?}, so JetStream takes messages for handled that are not: make the consumer anew with \
                 explicit acks",
                live.ack_policy
            ));
        }
        if live.max_deliver > 0 {
            return refuse(format!(
                "JetStream drops its messages after {} deliveries without a word, also those that a crash or a shutdown \
                 ended: set max_deliver to -1, as `.declare()` does; `.max_attempts(..)` is the limit",
                live.max_deliver
            ));
        }
        let places = usize::try_from(live.max_ack_pending).unwrap_or(0);
        if places > 0 && places < plan.concurrency {
            return refuse(format!(
                "a max_ack_pending of {places} does not feed {} handlers: raise `.max_ack_pending(..)` and `.declare()` \
                 it, or lower `.concurrency(..)`",
                plan.concurrency
            ));
        }
        if live.headers_only {
            return refuse(
                "it delivers headers only, and no message: set its headers_only to false, or use another name"
                    .to_owned(),
            );
        }
        if self.filter.as_ref().is_some_and(|filter| *filter != live.filter_subject) {
            return refuse(format!(
                "it was asked for `{}`, and the consumer delivers `{}`: `.declare()` it, or leave `.filter_subject(..)` out",
                self.filter.as_deref().unwrap_or_default(),
                if live.filter_subject.is_empty() { ">" } else { &live.filter_subject },
            ));
        }
        Ok(())
    }
}

fn pending(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// The shortest time in which JetStream waits for an answer. With a backoff of its own it is that one's.
fn lease(live: &Config) -> Duration {
    live.backoff.iter().min().copied().unwrap_or(live.ack_wait)
}

/// A message comes again when its ack was lost, after each delivery that was waited out to its end.
fn horizon(plan: &Plan, live: &Config, stream: &stream::Config) -> Horizon {
    let wait = live.backoff.iter().max().copied().unwrap_or(live.ack_wait);
    let each = wait.saturating_add(plan.patience);
    let (deliveries, pauses) = match (plan.max_attempts, plan.longest_backoff()) {
        (Some(attempts), Some(pauses)) => (attempts, pauses),
        _ => (2, plan.steps.last().copied().unwrap_or_default()),
    };
    let longest = each.saturating_mul(deliveries).saturating_add(pauses);
    let because = format!(
        "{deliveries} deliveries of {:?} of patience and {wait:?} without an answer (ack_wait) each, and {pauses:?} of \
         pauses between them",
        plan.patience
    );
    if stream.max_age.is_zero() || stream.max_age >= longest {
        Horizon { longest, because }
    } else {
        Horizon { longest: stream.max_age, because: format!("the stream's max_age; else {because}") }
    }
}

impl Adapter for Source {
    type Subscription = Reading;

    const BROKER: &'static str = "NATS JetStream";
    const CAPABILITIES: Capabilities = Capabilities {
        native_delay: true,
        native_dead_letter: false,
        // An ack of an earlier delivery is as good as one of the last.
        fenced_ack: false,
        ordered: true,
        exact_attempts: true,
    };

    fn source(&self) -> String {
        format!("{}/{}", self.stream, self.durable)
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        self.check_plan(plan)?;
        let stream = self.see_to_stream().await?;
        let mut found = self.look().await?;
        if found.as_ref().is_some_and(|found| found.deliver_subject.is_some()) {
            return Err(self.unsafe_because(format!(
                "`{}` is a push consumer, which is sent more than can be held: use another name, or delete it",
                self.durable
            )));
        }
        if self.declares {
            self.declare(plan, found).await?;
            found = self.look().await?;
        }
        let Some(live) = found else {
            return Err(self.unsafe_because(format!(
                "the stream `{}` has no consumer `{}`: create it, or let this one `.declare()` it",
                self.stream, self.durable
            )));
        };
        self.check(&live, plan)?;
        self.see_to_dead_letter(&live).await?;
        if stream.storage == StorageType::Memory || live.memory_storage {
            let source = self.source();
            tracing::warn!(
                target: "idem",
                { idem.source = source },
                "kept in memory only: a server that is started again has lost its messages, or which of them were handled"
            );
        }
        let consuming = |error: Box<dyn std::error::Error + Send + Sync>| {
            BrokerError::new(format!("consuming `{}`", self.source()), error)
        };
        let consumer = self.context.get_consumer_from_stream::<pull::Config, _, _>(&self.durable, &self.stream).await;
        let consumer: PullConsumer = consumer.map_err(|error| consuming(error.into()))?;
        let client = self.context.client();
        let inbox = client.new_inbox();
        let incoming = client.subscribe(inbox.clone()).await.map_err(|error| consuming(error.into()))?;
        Ok(Reading {
            consumer,
            inbox: inbox.into(),
            incoming,
            horizon: horizon(plan, &live, &stream),
            places: plan.in_flight,
            delivery_limit: self.dead_letter.is_some().then_some(self.delivery_limit),
            held: Arc::new(()),
            asked: 0,
            connection: 0,
            heard: Instant::now(),
            place: Arc::new(Place { context: self.context, dead_letter: self.dead_letter, lease: lease(&live) }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{horizon, lease};
    use crate::consume::Plan;
    use async_nats::jetstream::{consumer::Config, stream};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_backoff_of_the_server_is_the_lease() {
        let mut live = Config { ack_wait: 30 * SECOND, ..Config::default() };
        assert_eq!(lease(&live), 30 * SECOND);
        live.backoff = vec![5 * SECOND, 60 * SECOND];
        assert_eq!(lease(&live), 5 * SECOND);
    }

    #[test]
    fn the_horizon_is_that_of_the_deliveries_or_of_the_stream() {
        let mut plan = Plan {
            concurrency: 1,
            in_flight: 1,
            max_attempts: Some(3),
            steps: vec![SECOND, 10 * SECOND],
            ordered: false,
            patience: 100 * SECOND,
            grace: SECOND,
        };
        let live = Config { ack_wait: 30 * SECOND, ..Config::default() };
        let mut stream = stream::Config::default();
        assert_eq!(horizon(&plan, &live, &stream).longest, (3 * 130 + 1 + 10) * SECOND);
        stream.max_age = 200 * SECOND;
        assert_eq!(horizon(&plan, &live, &stream).longest, 200 * SECOND);
        plan.max_attempts = None;
        stream.max_age = Duration::ZERO;
        assert_eq!(horizon(&plan, &live, &stream).longest, (2 * 130 + 10) * SECOND);
    }
}
