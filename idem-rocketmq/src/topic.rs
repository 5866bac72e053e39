use crate::{
    client::{Client, MOST_IN_FLIGHT},
    reading::{Door, Reading},
    settle::Place,
};
use idem_runtime::consume::{Adapter, BrokerError, Capabilities, Horizon, Plan, StartError};
use rocketmq_client_rust::{ClientConfig, DefaultMQProducer, MQPushConsumer as _};
use std::{fmt, iter, sync::Arc, time::Duration};

/// RocketMQ's own setting.
const CONSUME_TIMEOUT: Duration = Duration::from_mins(15);
/// RocketMQ's own table of delays in seconds, from the third one on: that is the first retry's.
const RETRY_DELAYS: [u64; 16] = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];
/// RocketMQ's limit is 120, and `-redrive` goes behind it.
const LONGEST_GROUP: usize = 112;

/// A topic to be consumed by a group.
#[must_use = "a topic does nothing until a consumer `of` it is `run`"]
pub struct Topic {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) dead_letter: Option<String>,
    pub(crate) consume_timeout: Duration,
    pub(crate) client: ClientConfig,
    retry_delays: Vec<Duration>,
    tags: String,
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic")
            .field("name", &self.name)
            .field("group", &self.group)
            .field("dead_letter", &self.dead_letter)
            .finish_non_exhaustive()
    }
}

impl Topic {
    /// A topic, by its name. It needs a [`group`](Self::group) and a [`name_server`](Self::name_server).
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            group: String::new(),
            dead_letter: None,
            consume_timeout: CONSUME_TIMEOUT,
            client: ClientConfig::default(),
            retry_delays: RETRY_DELAYS.map(Duration::from_secs).to_vec(),
            tags: "*".to_owned(),
        }
    }

    /// The consumer group, of at most 112 characters. All its consumers must ask for the same topic and the same
    /// [`tags`](Self::tags): RocketMQ counts a message as consumed that one of them did not ask for.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// The name servers: `host:9876`, several with `;` between them. By default those of the client: the environment
    /// variable `NAMESRV_ADDR`.
    pub fn name_server(mut self, addresses: impl Into<String>) -> Self {
        self.client.namesrv_addr = Some(addresses.into().into());
        self
    }

    /// The topic for messages that cannot be handled. Without one the consumer starts only with
    /// [`unlimited_attempts`](idem_runtime::consume::Consumer::unlimited_attempts), and messages with permanent errors come
    /// again and again.
    pub fn dead_letter(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter = Some(topic.into());
        self
    }

    /// Only messages with these tags: `paid || refunded`. By default all.
    pub fn tags(mut self, expression: impl Into<String>) -> Self {
        self.tags = expression.into();
        self
    }

    /// How long a message may be held before it comes again, while its handler may still run; 15 minutes by default, at
    /// least a second. The engine waits for the store in place for at most half of it.
    pub fn consume_timeout(mut self, timeout: Duration) -> Self {
        self.consume_timeout = timeout;
        self
    }

    /// The pauses before the first, the second and each further retry, where the brokers' `messageDelayLevel` is not
    /// RocketMQ's own: its levels from the third one on. They say how late a message can come again, and change nothing
    /// on the broker.
    pub fn retry_delays(mut self, delays: impl IntoIterator<Item = Duration>) -> Self {
        self.retry_delays = delays.into_iter().collect();
        self
    }

    /// The client's own settings: its namespace, TLS, intervals.
    ///
    /// ```
    /// # use idem_rocketmq::Topic;
    /// let topic = Topic::new("order-paid").group("points").configure(|client| client.use_tls = true);
    /// # let _ = topic;
    /// ```
    pub fn configure(mut self, set: impl FnOnce(&mut ClientConfig)) -> Self {
        set(&mut self.client);
        self
    }

    fn unsafe_because(&self, reason: impl Into<String>) -> StartError {
        StartError::Unsafe { from: self.source(), reason: reason.into() }
    }

    /// What can be said without asking anybody.
    fn check(&self, plan: &Plan) -> Result<(), StartError> {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-%|".contains(&byte))
        };
        if !is_name(&self.group) || self.group.len() > LONGEST_GROUP {
            return Err(self.unsafe_because(format!(
                "`{}` is no group that RocketMQ could remember the position of: name one with `.group(..)`, of letters, \
                 digits, `_`, `-`, `%` and `|`, at most {LONGEST_GROUP}",
                self.group
            )));
        }
        if plan.max_attempts.is_some() && self.dead_letter.is_none() {
            return Err(self.unsafe_because(
                "messages that fail too often have nowhere to go: name a topic with `.dead_letter(..)`, or try for ever \
                 with `.unlimited_attempts()`",
            ));
        }
        if self.dead_letter.as_ref() == Some(&self.name) {
            return Err(self.unsafe_because("its dead letters go to the topic itself: name another topic"));
        }
        if self.consume_timeout < Duration::from_secs(1) {
            return Err(self.unsafe_because(format!(
                "a message would come again after {:?} while its handler runs: give it a second at least with \
                 `.consume_timeout(..)`",
                self.consume_timeout
            )));
        }
        if plan.in_flight > MOST_IN_FLIGHT {
            return Err(self.unsafe_because(format!(
                "each message that is held takes a thread of RocketMQ's client, which has {MOST_IN_FLIGHT}, and {} were \
                 asked for: lower `.concurrency(..)` and `.backlog(..)`",
                plan.in_flight
            )));
        }
        Ok(())
    }

    /// Looks for the topics. The client would wait for one that is not there without a word.
    async fn look_for_topics(&self, producer: &mut DefaultMQProducer) -> Result<(), StartError> {
        for topic in iter::once(&self.name).chain(&self.dead_letter) {
            let Err(error) = Box::pin(producer.fetch_publish_message_queues(topic)).await else { continue };
            // What the client says when the name server has answered, and knows nothing.
            return Err(if error.code().as_str() == "core.argument.invalid" {
                self.unsafe_because(format!("no broker has the topic `{topic}`: create it, or is it another's name?"))
            } else {
                BrokerError::new(format!("looking for the topic `{topic}`"), error).into()
            });
        }
        Ok(())
    }

    /// A message can come again after each delivery was held for as long as it may be, and each pause was waited for.
    fn horizon(&self, max_attempts: Option<u32>) -> Horizon {
        let held = self.consume_timeout;
        let longest = self.retry_delays.last().copied().unwrap_or_default();
        let Some(attempts) = max_attempts else {
            let pause = self.retry_delays.iter().max().copied().unwrap_or_default();
            return Horizon {
                longest: held.saturating_mul(2).saturating_add(pause),
                because: format!(
                    "two deliveries of at most {held:?} each (consume_timeout), and {pause:?} between them; attempts have \
                     no limit, and each after the COMMIT needs another ack to be lost"
                ),
            };
        };
        let pauses = self.retry_delays.iter().copied().chain(iter::repeat(longest));
        let retries = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let table = retries.min(self.retry_delays.len());
        let rest = u32::try_from(retries - table).unwrap_or(u32::MAX);
        let pause = pauses.take(table).fold(longest.saturating_mul(rest), Duration::saturating_add);
        Horizon {
            longest: held.saturating_mul(attempts).saturating_add(pause),
            because: format!(
                "{attempts} deliveries of at most {held:?} each (consume_timeout), and {pause:?} of pauses between them \
                 (messageDelayLevel)"
            ),
        }
    }
}

impl Adapter for Topic {
    type Subscription = Reading;

    const BROKER: &'static str = "RocketMQ";
    const CAPABILITIES: Capabilities = Capabilities {
        // The table of delays is the broker's, and its line the number of the retry.
        native_delay: false,
        native_dead_letter: true,
        fenced_ack: false,
        ordered: true,
        // Deliveries that end with their process are not counted.
        exact_attempts: false,
    };

    fn source(&self) -> String {
        format!("{}/{}", self.name, self.group)
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        self.check(plan)?;
        let listeners = plan.in_flight;
        let client = Client::new(&self, listeners)?;
        let mut producer = client.producer(&self).await?;
        self.look_for_topics(&mut producer).await?;
        let mut consumer = client.consumer(&self, listeners);
        let (to_engine, from_client) = tokio::sync::mpsc::channel(listeners);
        let door = Door { to_engine, consume_timeout: self.consume_timeout };
        if plan.ordered {
            consumer.register_message_listener_orderly(door);
        } else {
            consumer.register_message_listener_concurrently(door);
        }
        let failed = |error| BrokerError::new(format!("consuming the topic `{}`", self.name), error);
        Box::pin(consumer.subscribe(&*self.name, &*self.tags)).await.map_err(failed)?;
        Box::pin(consumer.start()).await.map_err(failed)?;
        let (horizon, consume_timeout) = (self.horizon(plan.max_attempts), self.consume_timeout);
        let place = Arc::new(Place { producer, topic: self.name, dead_letter: self.dead_letter });
        Ok(Reading {
            from_client,
            consumer: Some(consumer),
            ending: None,
            client: Some(client),
            place,
            horizon,
            consume_timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Topic;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_mins(1);

    /// RocketMQ's own words: 16 retries end after some four hours and three quarters.
    #[test]
    fn a_message_can_come_again_as_late_as_the_table_of_delays_says() {
        let topic = Topic::new("t").consume_timeout(MINUTE);
        let pauses = |attempts| topic.horizon(Some(attempts)).longest.saturating_sub(MINUTE * attempts);
        assert_eq!(pauses(1), Duration::ZERO);
        assert_eq!(pauses(3), Duration::from_secs(40));
        assert_eq!(pauses(17), Duration::from_secs(4 * 3600 + 45 * 60 + 40));
        assert_eq!(pauses(19), pauses(17) + Duration::from_hours(4));
        assert!(topic.horizon(Some(u32::MAX)).longest > Duration::from_hours(2) * (u32::MAX - 17));
        assert_eq!(topic.horizon(None).longest, 2 * MINUTE + Duration::from_hours(2));
        let topic = topic.retry_delays([MINUTE]);
        assert_eq!(topic.horizon(Some(3)).longest, 5 * MINUTE);
    }
}
