//! A queue on the RabbitMQ of the story.

use super::thief::Thief;
use crate::story::StoryError;
use idem_runtime::{Error, Outcome, SqliteStore, consume::Backoff, rabbitmq::Consumer};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    env,
    fmt::Display,
    net::SocketAddr,
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Messages outlive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Nothing fails in this story; each pause has a queue of its own, so there is one.
const PAUSE: Duration = Duration::from_secs(1);

/// Far more than an act takes.
const TOO_LONG: Duration = Duration::from_mins(1);

/// A queue of this run.
#[derive(Debug)]
pub(crate) struct Queue {
    broker: String,
    name: String,
}

/// Where the broker is.
fn address() -> String {
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
    pub(crate) async fn send(&self, messages: &[impl Serialize]) -> Result<(), StoryError> {
        let publisher = self.publisher().await?;
        for message in messages {
            publisher.publish(message).await?;
        }
        publisher.close().await
    }

    /// Something to send to it with.
    pub(crate) async fn publisher(&self) -> Result<Publisher, StoryError> {
        let connection =
            Connection::connect(&format!("amqp://{}", self.broker), ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let connection = Arc::new(connection);
        Ok(Publisher { connection, channel, queue: self.name.clone(), confirmed: Arc::default() })
    }

    /// Consumes until so many deliveries were handled. Tells what each came to. So many acks are lost on the way.
    pub(crate) async fn consume<T: DeserializeOwned, E: Display>(
        &self,
        books: &SqliteStore,
        deliveries: usize,
        lost: usize,
        handle: impl AsyncFn(&T) -> Result<Outcome<()>, Error<E>>,
    ) -> Result<Vec<&'static str>, StoryError> {
        let network = Thief::start(self.broker.clone(), lost).await;
        let network = network.map_err(|source| StoryError::Io { what: "opening a port", source })?;
        let (consumer, connection) = self.consumer(network.address()).await?;
        let (answers, enough) = (Mutex::new(Vec::new()), Arc::new(Notify::new()));
        let stop = Arc::clone(&enough);
        let consumer = consumer.covered_by(books).shutdown(async move { stop.notified().await });
        let run = consumer.run(async |delivery| {
            let result = handle(delivery.message()).await;
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.push(result.as_ref().map_or_else(Error::label, Outcome::label));
            if answers.len() == deliveries {
                enough.notify_one();
            }
            result
        });
        tokio::time::timeout(TOO_LONG, run).await.map_err(|_| StoryError::Request("a message did not come"))??;
        // The consumer has given its channel back; a connection that is gone already needs no closing.
        let _ = connection.close(200, "done".into()).await;
        if network.stolen() != lost {
            return Err(StoryError::Request("no ack was lost, so nothing was shown"));
        }
        let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Which of two handlers at once comes back first is a matter of luck.
        answers.sort_by_key(|label| *label == "duplicate");
        Ok(answers)
    }

    /// A consumer of it, over the network at this address. The connection has to live as long.
    async fn consumer<T>(&self, network: SocketAddr) -> Result<(Consumer<T>, Connection), StoryError> {
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

/// Sends to a queue, with publisher confirms.
#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    connection: Arc<Connection>,
    channel: Channel,
    queue: String,
    confirmed: Arc<AtomicUsize>,
}

impl Publisher {
    /// Sends a message. It is in the queue when this is done.
    pub(crate) async fn publish(&self, message: &impl Serialize) -> Result<(), StoryError> {
        let body = serde_json::to_vec(message).map_err(|_| StoryError::Request("the message is no JSON"))?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let sent =
            self.channel.basic_publish("".into(), self.queue.as_str().into(), options, &body, properties).await?;
        // A message that came back with the confirm found no queue.
        if !matches!(sent.await?, Confirmation::Ack(None)) {
            return Err(StoryError::Request("RabbitMQ did not take the message"));
        }
        self.confirmed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How many messages RabbitMQ said it has.
    pub(crate) fn confirmed(&self) -> usize {
        self.confirmed.load(Ordering::Relaxed)
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) -> Result<(), StoryError> {
        Ok(self.connection.close(200, "done".into()).await?)
    }
}
