//! The client's own runtime, and its parts as they must be set.

use crate::topic::Topic;
use idem_runtime::consume::BrokerError;
use rocketmq_client_rust::{
    ClientConfig, ClientOptions, ClientRuntime, ClientRuntimeConfig, DefaultLitePullConsumer, DefaultMQProducer,
    DefaultMQPushConsumer, SendStatus, TelemetryHandle,
};
use rocketmq_model::common::{consumer::consume_from_where::ConsumeFromWhere, message::message_single::Message};
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};
use std::{error::Error, sync::Arc, time::Duration};

/// The client counts in whole minutes, and must not be the first whose patience ends.
const MINUTE: Duration = Duration::from_mins(1);
/// Threads of the client's blocking pool beside those of the listeners.
const OTHER_THREADS: usize = 8;
/// As many listeners as the client's blocking pool has room for.
pub(crate) const MOST_IN_FLIGHT: usize = 512 - OTHER_THREADS;

/// A runtime with the client in it. Dropping it is as a crash of the process is: nothing is sent any more.
pub(crate) struct Client {
    owner: RuntimeOwner,
    runtime: Arc<ClientRuntime>,
    config: ClientConfig,
}

impl Client {
    /// A runtime in which so many listeners can wait, each for so long.
    pub(crate) fn new(topic: &Topic, listeners: usize) -> Result<Self, BrokerError> {
        let failed = |error: Box<dyn Error + Send + Sync>| BrokerError::new("starting RocketMQ's client", error);
        let config = RuntimeConfig::for_parallelism("idem-rocketmq", 2);
        let mut config = config
            .with_max_blocking_threads(listeners + OTHER_THREADS)
            .map_err(|violation| failed(violation.to_string().into()))?;
        // Listeners run in this lane. By its own settings it runs four on a small machine, and gives up on one after
        // 30 seconds: the message would come again while its handler runs.
        let lane = &mut config.blocking_lane_policies.metadata_io;
        lane.max_concurrency = listeners + OTHER_THREADS;
        lane.max_queue_depth = lane.max_queue_depth.max(listeners);
        lane.task_timeout = topic.consume_timeout.saturating_add(MINUTE);
        lane.queue_timeout = lane.task_timeout;
        lane.warn_after = lane.task_timeout;
        let owner = RuntimeOwner::plan(config).map_err(|violation| failed(violation.to_string().into()))?;
        let owner = owner.build().map_err(|error| failed(error.into()))?;
        let context = owner.root_context().component("idem");
        let runtime = ClientRuntime::try_new(context, ClientRuntimeConfig::default(), TelemetryHandle::noop());
        let runtime = runtime.map_err(|error| failed(error.into()))?;
        Ok(Self { owner, runtime, config: topic.client.clone() })
    }

    fn options(&self) -> ClientOptions {
        ClientOptions::legacy(self.config.clone())
    }

    /// A producer that is started.
    pub(crate) async fn producer(&self, topic: &Topic) -> Result<DefaultMQProducer, BrokerError> {
        let builder = DefaultMQProducer::builder(self.runtime.clone());
        let mut producer =
            builder.client_options(self.options()).producer_group(format!("{}-idem", topic.group)).build();
        let started = Box::pin(producer.start()).await;
        started.map_err(|error| BrokerError::new("starting RocketMQ's producer", error))?;
        Ok(producer)
    }

    /// A consumer that is not started yet.
    pub(crate) fn consumer(&self, topic: &Topic, listeners: usize) -> DefaultMQPushConsumer {
        let threads = u32::try_from(listeners).unwrap_or(u32::MAX);
        DefaultMQPushConsumer::builder(self.runtime.clone())
            .client_options(self.options())
            .consumer_group(&*topic.group)
            // Its own setting leaves out what was sent before the group's first start.
            .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
            // A message that fails would drag its neighbours along.
            .consume_message_batch_max_size(1)
            .consume_thread_min(threads)
            .consume_thread_max(threads)
            // It reads ahead as much as it holds, from each queue.
            .pull_batch_size(threads.min(32))
            .pull_threshold_for_queue(threads)
            // The engine's limit comes first, and so does its dead letter, which says why.
            .max_reconsume_times(i32::MAX)
            .consume_timeout(topic.consume_timeout.as_secs().div_ceil(60) + 1)
            // At the end it waits for those who have a message, as long as it takes.
            .await_termination_millis_when_shutdown(topic.consume_timeout.as_millis().try_into().unwrap_or(u64::MAX))
            .build()
    }

    /// A reader of a topic that is not started yet.
    pub(crate) fn reader(&self, group: &str) -> Result<DefaultLitePullConsumer, BrokerError> {
        let reader = DefaultLitePullConsumer::builder(self.runtime.clone())
            .client_options(self.options())
            .consumer_group(group)
            .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
            .auto_commit(false)
            // It stops only when the broker has answered what it has asked.
            .broker_suspend_max_time_millis(1000)
            .build();
        reader.map_err(|error| BrokerError::new("making a reader", error))
    }

    /// Ends all of it. What it has to say to the broker must be said: its own way of stopping waits 30 seconds for a
    /// producer.
    pub(crate) fn close(self) {
        self.owner.shutdown_background();
    }
}

/// Sends a message, and returns when the broker has stored it.
pub(crate) async fn publish(producer: &DefaultMQProducer, message: Message) -> Result<(), BrokerError> {
    let doing = format!("sending to the topic `{}`", message.topic());
    match Box::pin(producer.send(message)).await {
        Ok(Some(sent)) if sent.send_status == SendStatus::SendOk => Ok(()),
        Ok(Some(sent)) => Err(BrokerError::new(doing, format!("it is not stored safely: {:?}", sent.send_status))),
        Ok(None) => Err(BrokerError::new(doing, "the broker did not say that it is stored")),
        Err(error) => Err(BrokerError::new(doing, error)),
    }
}
