//! RabbitMQ, on its real server.

mod node;

use super::{Credit, Harness, Line, Server, quick};
use crate::proxy::{Cut, Proxy};
use idem_runtime::{consume::Consumer, rabbitmq};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};
use node::Node;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The header of a `basic.ack` method frame.
const ACK: &str = "\0\u{3c}\0\u{50}";

fn shared() -> SocketAddr {
    let address = std::env::var("IDEM_TEST_RABBITMQ").unwrap_or_else(|_| "127.0.0.1:5672".to_owned());
    address.parse().unwrap_or_else(|error| panic!("IDEM_TEST_RABBITMQ={address} is no address: {error}"))
}

/// A queue of the test's own.
pub struct Rabbit {
    node: Option<Node>,
    address: SocketAddr,
    /// Its name.
    pub queue: String,
}

/// A consumer's connection, through a proxy.
pub struct Wire(Proxy);

async fn connect(address: SocketAddr) -> Connection {
    connect_and_try(address, 1000).await
}

/// A connection that tries so often to come back.
async fn connect_and_try(address: SocketAddr, times: usize) -> Connection {
    // By default the pauses between its tries double, up to a minute, and a broker of these tests is back in seconds.
    let properties = ConnectionProperties::default()
        .enable_auto_recover()
        .configure_backoff(|backoff| backoff.with_max_delay(Duration::from_secs(1)).with_max_times(times));
    Connection::connect(&format!("amqp://{address}"), properties)
        .await
        .unwrap_or_else(|error| panic!("no RabbitMQ at {address} (IDEM_TEST_RABBITMQ): {error}"))
}

impl Rabbit {
    /// A channel of the test's own, past the proxies.
    pub async fn channel(&self) -> (Connection, Channel) {
        let connection = connect(self.address).await;
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        (connection, channel)
    }

    /// A consumer whose connection tries so often to come back.
    pub async fn consumer_that_tries(&self, times: usize) -> (Consumer<rabbitmq::Queue, Credit>, Wire) {
        let proxy = Proxy::start(self.address, Duration::ZERO).await.unwrap();
        let connection = connect_and_try(proxy.address(), times).await;
        let channel = connection.create_channel().await.unwrap();
        let consumer = rabbitmq::Consumer::new(channel, &*self.queue).declare().dead_letter(self.dead_letter_queue());
        (consumer, Wire(proxy))
    }

    /// Another queue on the same server.
    #[must_use]
    pub fn beside(&self, queue: &str) -> Self {
        Self { node: None, address: self.address, queue: queue.to_owned() }
    }

    /// The queue of its dead letters.
    pub fn dead_letter_queue(&self) -> String {
        format!("{}.dlq", self.queue)
    }

    /// How many messages a queue has ready.
    pub async fn ready(&self, queue: &str) -> u32 {
        let (connection, channel) = self.channel().await;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
        let ready = found.map_or(0, |queue| queue.message_count());
        let _ = connection.close(200, "done".into()).await;
        ready
    }
}

impl Harness for Rabbit {
    type Adapter = rabbitmq::Queue;
    type Line = Wire;

    const LEASE: Duration = Duration::from_secs(1);

    async fn new(server: Server) -> Self {
        let node = match server {
            Server::Shared => None,
            Server::Own => Some(Node::new(None).await),
            Server::OwnWithLease => Some(Node::new(Some(Self::LEASE)).await),
        };
        let address = node.as_ref().map_or_else(shared, Node::address);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let queue = format!("idem-test.{since}.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let rabbit = Self { node, address, queue };
        // The consumer declares it in the same way.
        let (consumer, line) = rabbit.consumer().await;
        let error = quick(consumer)
            .shutdown(std::future::ready(()))
            .run(async |_| -> Result<idem_runtime::Outcome<()>, idem_runtime::Error<String>> { unreachable!() })
            .await
            .err();
        assert!(error.is_none(), "{error:?}");
        drop(line);
        rabbit
    }

    fn described(&self) -> String {
        format!("{} {}", self.address, self.queue)
    }

    async fn attach(described: &str) -> Self {
        let (address, queue) = described.split_once(' ').expect("an address and a queue");
        Self { node: None, address: address.parse().expect("an address"), queue: queue.to_owned() }
    }

    async fn consumer(&self) -> (Consumer<rabbitmq::Queue, Credit>, Wire) {
        self.consumer_that_tries(1000).await
    }

    async fn send(&self, payload: &str) {
        self.send_all(&[payload.to_owned()]).await;
    }

    async fn send_all(&self, payloads: &[String]) {
        let (connection, channel) = self.channel().await;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut headers = FieldTable::default();
        headers.insert("tenant".into(), AMQPValue::LongString("acme".into()));
        let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
        for payload in payloads {
            let sent = channel
                .basic_publish("".into(), self.queue.as_str().into(), options, payload.as_bytes(), properties.clone())
                .await
                .unwrap()
                .await
                .unwrap();
            assert_eq!(sent, lapin::Confirmation::Ack(None));
        }
        let _ = connection.close(200, "done".into()).await;
    }

    async fn dead_letters(&self) -> Vec<(String, Vec<(String, String)>)> {
        let (connection, channel) = self.channel().await;
        let mut letters = Vec::new();
        let queue = self.dead_letter_queue();
        while let Some(got) = channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await.unwrap() {
            let headers = got.delivery.properties.headers().iter().flat_map(FieldTable::inner);
            let headers = headers.filter_map(|(name, value)| match value {
                AMQPValue::LongString(text) => {
                    Some((name.to_string(), String::from_utf8_lossy(text.as_bytes()).into_owned()))
                }
                _ => None,
            });
            letters.push((String::from_utf8_lossy(&got.delivery.data).into_owned(), headers.collect()));
            got.delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
        }
        let _ = connection.close(200, "done".into()).await;
        letters
    }

    async fn left(&self) -> u64 {
        // A channel that was closed a moment ago has its messages back in a moment.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let waiting = self.ready(&format!("{}.idem-retry.200", self.queue)).await;
        u64::from(self.ready(&self.queue).await + waiting)
    }

    async fn stop(&mut self) {
        self.node.as_mut().unwrap().end("-TERM").await;
    }

    async fn kill(&mut self) {
        self.node.as_mut().unwrap().end("-KILL").await;
    }

    async fn start(&mut self) {
        self.node.as_mut().unwrap().start().await;
    }

    async fn close(mut self) {
        if let Some(node) = &mut self.node {
            return node.end("-KILL").await;
        }
        let (connection, channel) = self.channel().await;
        for queue in [self.queue.clone(), self.dead_letter_queue(), format!("{}.idem-retry.200", self.queue)] {
            let _ = channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await;
        }
        let _ = connection.close(200, "done".into()).await;
    }
}

impl Wire {
    /// Breaks it, and no other one is made.
    pub fn cut_for_good(&self) {
        self.0.refuse(true);
        self.0.break_all();
    }

    /// Breaks it, and another one can be made only afterwards.
    pub async fn cut_until(&self, meanwhile: impl Future<Output = ()>) {
        self.cut_for_good();
        meanwhile.await;
        self.0.refuse(false);
    }
}

impl Line for Wire {
    async fn cut(&self) {
        self.0.break_all();
        // Until it is gone for good, or the client would be back before the broker missed it.
        tokio::task::yield_now().await;
    }

    async fn lose_next_ack(&self) {
        self.0.cut_once(ACK, Cut::Before).await;
    }
}
