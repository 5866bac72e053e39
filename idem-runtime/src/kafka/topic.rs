use super::{
    client::{Callbacks, fault, of_consumer, of_others, of_producer},
    poll::{Bounds, Reading, poll},
    settle::Copies,
    window::Shared,
};
use crate::consume::{Adapter, BrokerError, Capabilities, Horizon, Plan, StartError};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
    producer::FutureProducer,
};
use std::{collections::BTreeSet, sync::Arc, thread, time::Duration};
use tokio::sync::oneshot;

/// How long the broker may take to answer a question at the start.
pub(super) const ANSWER: Duration = Duration::from_secs(15);
/// Kafka's own default of `retention.ms` and of `segment.ms`.
const WEEK: Duration = Duration::from_hours(7 * 24);

/// Topics to be consumed by a group.
#[derive(Clone, Debug)]
pub struct Topic {
    pub(super) config: ClientConfig,
    pub(super) topics: Vec<String>,
    pub(super) dead_letter: Option<String>,
    pub(super) declares: Option<(i32, i32)>,
    pub(super) retry_topics: bool,
    pub(super) unsettled: usize,
    pub(super) redelivered_within: Option<Duration>,
}

/// The topic in which copies wait for this step of the backoff.
pub(super) fn retry_topic(topic: &str, step: Duration) -> String {
    format!("{topic}.idem-retry.{}", step.as_millis())
}

impl Topic {
    pub(super) fn new(config: ClientConfig, topic: String) -> Self {
        Self {
            config,
            topics: vec![topic],
            dead_letter: None,
            declares: None,
            retry_topics: false,
            unsettled: 1000,
            redelivered_within: None,
        }
    }

    fn unsafe_because(&self, reason: impl Into<String>) -> StartError {
        StartError::Unsafe { from: self.source(), reason: reason.into() }
    }

    fn check(&self, plan: &Plan) -> Result<(), StartError> {
        if let Some(reason) = fault(&self.config) {
            return Err(self.unsafe_because(reason));
        }
        if plan.max_attempts.is_some() && self.dead_letter.is_none() {
            return Err(self.unsafe_because(
                "messages that fail too often have nowhere to go: name a topic with `.dead_letter(..)`, or try for ever \
                 with `.unlimited_attempts()`",
            ));
        }
        if self.dead_letter.as_ref().is_some_and(|dead_letter| self.topics.contains(dead_letter)) {
            return Err(self.unsafe_because("its dead letters go to a topic that it consumes: name another topic"));
        }
        if self.retry_topics && plan.ordered {
            return Err(self.unsafe_because(
                "copies in retry topics come back behind messages of the same key: leave out `.retry_topics()` or \
                 `.ordered_by(..)`",
            ));
        }
        Ok(())
    }

    /// What is subscribed to.
    fn consumed(&self, plan: &Plan) -> Vec<String> {
        let mut topics: BTreeSet<_> = self.topics.iter().cloned().collect();
        if self.retry_topics {
            let copies =
                self.topics.iter().flat_map(|topic| plan.steps.iter().map(move |step| retry_topic(topic, *step)));
            topics.extend(copies);
        }
        topics.into_iter().collect()
    }

    /// Looks for the topics, and makes those that are missing where it may.
    async fn see_to(&self, admin: &Arc<Admin>, topics: Vec<String>) -> Result<(), StartError> {
        let missing = missing(admin, topics.clone()).await?;
        let (Some(first), Some((partitions, replicas))) = (missing.first(), self.declares) else {
            return match missing.first() {
                Some(topic) => Err(self.unsafe_because(format!(
                    "there is no topic `{topic}`: create it, or let the consumer `.declare(..)` it"
                ))),
                None => Ok(()),
            };
        };
        let asking = || format!("creating the topic `{first}`");
        let new = missing.iter().map(|topic| NewTopic::new(topic, partitions, TopicReplication::Fixed(replicas)));
        let new: Vec<_> = new.collect();
        let options = AdminOptions::new().request_timeout(Some(ANSWER)).operation_timeout(Some(ANSWER));
        let created = admin.create_topics(&new, &options).await.map_err(|error| BrokerError::new(asking(), error))?;
        for created in created {
            match created {
                // Another consumer was quicker.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, error)) => {
                    return Err(self.unsafe_because(format!("the topic `{topic}` could not be created: {error}")));
                }
            }
        }
        Ok(())
    }

    /// A message can come again for as long as its topic keeps it: somebody may set the group's offsets back, and Kafka
    /// forgets those of a group that was away for a week.
    async fn horizon(&self, admin: &Admin, plan: &Plan) -> Horizon {
        if let Some(longest) = self.redelivered_within {
            return Horizon { longest, because: "as the application says (`redelivered_within`)".to_owned() };
        }
        let (mut kept, mut known) = (Duration::ZERO, true);
        for topic in &self.topics {
            let (topic_kept, from_broker) = kept_for(admin, topic).await;
            kept = kept.max(topic_kept);
            known &= from_broker;
        }
        let copies = if self.retry_topics { plan.longest_backoff().unwrap_or(Duration::MAX) } else { Duration::ZERO };
        Horizon {
            longest: kept.saturating_add(copies),
            because: format!(
                "the topic keeps it for `retention.ms` and until its segment is rolled (`segment.ms`), {} together{}, and \
                 offsets can be set back so far. `redelivered_within(..)` says otherwise",
                if kept == Duration::MAX { "without an end".to_owned() } else { format!("{kept:?}") },
                if known { "" } else { " by Kafka's defaults, since the broker does not tell" },
            ),
        }
    }
}

type Admin = AdminClient<DefaultClientContext>;

/// Which of these topics are not there.
async fn missing(admin: &Arc<Admin>, topics: Vec<String>) -> Result<Vec<String>, BrokerError> {
    let admin = admin.clone();
    let looking = tokio::task::spawn_blocking(move || {
        // All of them: a broker may make a topic that is asked for by its name.
        let found = admin.inner().fetch_metadata(None, ANSWER);
        let found = found.map_err(|error| BrokerError::new("looking for topics", error))?;
        let is_there = |topic: &str| found.topics().iter().any(|found| found.name() == topic);
        Ok(topics.into_iter().filter(|topic| !is_there(topic)).collect())
    });
    looking.await.unwrap_or_else(|error| Err(BrokerError::new("looking for topics", error)))
}

/// How long a topic keeps a message at least to be safe, and whether the broker said so.
async fn kept_for(admin: &Admin, topic: &str) -> (Duration, bool) {
    let options = AdminOptions::new().request_timeout(Some(ANSWER));
    let described = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await;
    let described = described.ok().and_then(|mut found| found.pop()).and_then(Result::ok);
    let value = |name: &str| described.as_ref()?.get(name)?.value.as_ref()?.parse::<i64>().ok();
    let time = |name: &str| match value(name) {
        None => WEEK,
        // No limit.
        Some(millis) => u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis),
    };
    let compacted = described.as_ref().and_then(|found| found.get("cleanup.policy")?.value.clone());
    if compacted.is_some_and(|policy| policy == "compact") {
        return (Duration::MAX, true);
    }
    (time("retention.ms").saturating_add(time("segment.ms")), value("retention.ms").is_some())
}

impl Adapter for Topic {
    type Subscription = Reading;

    const BROKER: &'static str = "Kafka";
    const CAPABILITIES: Capabilities = Capabilities {
        native_delay: false,
        native_dead_letter: false,
        // A commit carries the generation of the group, and one of before a rebalance is refused.
        fenced_ack: true,
        ordered: true,
        exact_attempts: false,
    };

    fn source(&self) -> String {
        format!("{}@{}", self.topics.join(","), self.config.get("group.id").unwrap_or_default())
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        self.check(plan)?;
        let refused = |error: KafkaError| self.unsafe_because(format!("the client refuses its configuration: {error}"));
        let admin: Arc<Admin> = Arc::new(of_others(&self.config).create().map_err(refused)?);
        let topics = self.consumed(plan);
        self.see_to(&admin, topics.iter().chain(&self.dead_letter).cloned().collect()).await?;
        let horizon = self.horizon(&admin, plan).await;

        let producer: Option<FutureProducer> = match &self.dead_letter {
            None if !self.retry_topics => None,
            _ => Some(of_producer(&self.config).create().map_err(refused)?),
        };
        let shared = Arc::new(Shared::default());
        let consumer: BaseConsumer<Callbacks> =
            of_consumer(&self.config).create_with_context(Callbacks(shared.clone())).map_err(refused)?;
        let source = self.source();
        let asking = || format!("subscribing to {source}");
        let topics: Vec<_> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics).map_err(|error| BrokerError::new(asking(), error))?;

        let bounds = Bounds {
            ready: plan.in_flight,
            unsettled: self.unsettled,
            longest_pause: plan.steps.last().copied().unwrap_or_default().saturating_mul(2),
        };
        let (went, gone) = oneshot::channel();
        let polled = shared.clone();
        thread::Builder::new()
            .name("idem-kafka".to_owned())
            .spawn(move || poll(consumer, &polled, bounds, went))
            .map_err(|error| BrokerError::new(asking(), error))?;
        let copies = Copies { producer, dead_letter: self.dead_letter, retry_topics: self.retry_topics };
        Ok(Reading { shared, copies: Arc::new(copies), horizon, source, gone: Some(gone) })
    }
}
