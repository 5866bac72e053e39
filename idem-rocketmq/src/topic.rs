use crate::{
    client::{Client, MOST_IN_FLIGHT},
    reading::{Door, Reading},
    settle::Place,
};
use idem_runtime::consume::{Adapter, BrokerError, Capabilities, Horizon, Plan, StartError};
use rocketmq_client_rust::{ClientConfig, MQPushConsumer as _};
use std::{fmt, sync::Arc, time::Duration};

/// RocketMQ's own setting.
const CONSUME_TIMEOUT: Duration = Duration::from_mins(15);
/// RocketMQ's own table of delays, in seconds, from the third on: the first retry waits for that one.
const RETRY_DELAYS: [u64; 16] = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/// A topic to be consumed by a group.
pub struct Topic {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) dead_letter: Option<String>,
    pub(crate) consume_timeout: Duration,
    client: ClientConfig,
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
    /// A topic. It needs a [`group`](Self::group) and a [`name_server`](Self::name_server).
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
    /// g
    pub fn group(mut self, group: impl Into<String>) -> Self { self.group = group.into(); self }
    /// n
    pub fn name_server(mut self, addresses: impl Into<String>) -> Self { self.client.namesrv_addr = Some(addresses.into().into()); self }
    /// d
    pub fn dead_letter(mut self, topic: impl Into<String>) -> Self { self.dead_letter = Some(topic.into()); self }
    /// c
    pub fn consume_timeout(mut self, t: Duration) -> Self { self.consume_timeout = t; self }
    /// c
    pub fn configure(mut self, c: impl FnOnce(&mut ClientConfig)) -> Self { c(&mut self.client); self }

    pub(crate) fn client_config(&self) -> ClientConfig {
        self.client.clone()
    }
}

impl Adapter for Topic {
    type Subscription = Reading;

    const BROKER: &'static str = "RocketMQ";
    const CAPABILITIES: Capabilities = Capabilities {
        native_delay: false,
        native_dead_letter: true,
        fenced_ack: false,
        ordered: true,
        exact_attempts: false,
    };

    fn source(&self) -> String {
        format!("{}/{}", self.name, self.group)
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        let listeners = plan.in_flight;
        let _ = MOST_IN_FLIGHT;
        let client = Client::new(&self, listeners)?;
        let mut producer = client.producer(&self).await?;
        for topic in [Some(&self.name), self.dead_letter.as_ref()].into_iter().flatten() {
            let found = Box::pin(producer.fetch_publish_message_queues(topic)).await;
            eprintln!("FETCH {topic} {found:?}");
        }
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
        Ok(Reading {
            from_client,
            consumer: Some(consumer),
            ending: None,
            client: Some(client),
            place: Arc::new(Place { producer, topic: self.name.clone(), dead_letter: self.dead_letter.clone() }),
            horizon: Horizon { longest: Duration::ZERO, because: String::new() },
            consume_timeout: self.consume_timeout,
        })
    }
}
