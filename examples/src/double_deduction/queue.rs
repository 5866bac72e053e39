//! A queue on the RabbitMQ of the story.

use super::handlers::Deduct;
use crate::story::StoryError;
use idem_runtime::consume::Backoff;
use idem_runtime::rabbitmq::Consumer;
use lapin::{
    BasicProperties, Confirmation, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use std::{env, fmt::Display, net::SocketAddr, process, time::Duration};

/// Messages outlive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Nothing fails in this story; each pause has a queue of its own, so there is one.
const PAUSE: Duration = Duration::from_secs(1);

/// A queue of this run.
#[derive(Debug)]
pub(crate) struct Queue {
    broker: String,
    name: String,
}

/// Where the broker is.
pub(crate) fn address() -> String {
    env::var("IDEM_TEST_RABBITMQ").ok().filter(|address| !address.is_empty()).unwrap_or_else(|| "127.0.0.1:5672".into())
}

async fn connect(address: impl Display) -> Result<Connection, lapin::Error> {
    // Back soon after a break: by default the pauses between the client's tries double, up to a minute.
    let properties = ConnectionProperties::default()
        .enable_auto_recover()
        .configure_backoff(|backoff| backoff.with_max_delay(Duration::from_secs(1)));
    Connection::connect(&format!("amqp://{address}"), properties).await
}

impl Queue {
    /// Makes a queue.
    pub(crate) async fn create(side: &str) -> Result<Self, StoryError> {
        let queue = Self { broker: address(), name: format!("idem-example.{}.{side}", process::id()) };
        let connection = connect(&queue.broker)
            .await
            .map_err(|source| StoryError::NoBroker { address: queue.broker.clone(), source: Box::new(source) })?;
        let channel = connection.create_channel().await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.name.as_str().into(), options, arguments).await?;
        connection.close(200, "done".into()).await?;
        Ok(queue)
    }

    /// Sends messages; each is in the queue when this is done.
    pub(crate) async fn send(&self, messages: &[Deduct]) -> Result<(), StoryError> {
        let connection = connect(&self.broker).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        for message in messages {
            let body = serde_json::to_vec(message).map_err(|_| StoryError::Request("the message is no JSON"))?;
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let sent = channel.basic_publish("".into(), self.name.as_str().into(), options, &body, properties).await?;
            // A message that came back with the confirm found no queue.
            if !matches!(sent.await?, Confirmation::Ack(None)) {
                return Err(StoryError::Request("RabbitMQ did not take the message"));
            }
        }
        connection.close(200, "done".into()).await?;
        Ok(())
    }

    /// A consumer of it, over the network at this address. The connection has to live as long.
    pub(crate) async fn consumer(&self, network: SocketAddr) -> Result<(Consumer<Deduct>, Connection), StoryError> {
        let connection = connect(network).await?;
        let channel = connection.create_channel().await?;
        let consumer = Consumer::new(channel, &*self.name)
            .dead_letter(self.dead_letters())
            .retry(Backoff::steps([PAUSE]))
            .concurrency(2);
        Ok((consumer, connection))
    }

    /// Removes it, and those that the consumer made.
    pub(crate) async fn delete(&self) -> Result<(), StoryError> {
        let connection = connect(&self.broker).await?;
        let channel = connection.create_channel().await?;
        let retries = format!("{}.idem-retry.{}", self.name, PAUSE.as_millis());
        for queue in [&self.name, &self.dead_letters(), &retries] {
            channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
        }
        connection.close(200, "done".into()).await?;
        Ok(())
    }

    fn dead_letters(&self) -> String {
        format!("{}.dlq", self.name)
    }
}
