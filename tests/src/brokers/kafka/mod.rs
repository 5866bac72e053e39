//! Kafka, on a Kafka-compatible broker.

mod line;
mod node;

use super::{Credit, Harness, Server};
use idem_runtime::{consume::Consumer, kafka};
use line::{Broken, Wire};
use node::Node;
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
    message::{Header, Headers as _, OwnedHeaders},
    producer::{FutureProducer, FutureRecord},
    util::Timeout,
};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

static NUMBER: AtomicU32 = AtomicU32::new(0);
const ANSWER: Duration = Duration::from_secs(30);

fn shared() -> SocketAddr {
    let address = std::env::var("IDEM_TEST_KAFKA").unwrap_or_else(|_| "127.0.0.1:9092".to_owned());
    address.parse().unwrap_or_else(|error| panic!("IDEM_TEST_KAFKA={address} is no address: {error}"))
}

/// A topic of the test's own, and its group.
pub struct Kafka {
    node: Option<Node>,
    address: SocketAddr,
    /// The topic's name, and the group's.
    pub topic: String,
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

impl Kafka {
    /// A configuration with the test's group.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.address.to_string()).set("group.id", &self.topic);
        // The broker of the tests (Tansu 0.6) counts a batch as one message when it is asked for a topic's end.
        config.set("batch.num.messages", "1");
        // What is lost with a crash is taken over soon.
        config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
        config.set("reconnect.backoff.max.ms", "500").set("topic.metadata.refresh.interval.ms", "1000");
        config
    }

    /// The topic of its dead letters.
    pub fn dead_letter_topic(&self) -> String {
        format!("{}.dlq", self.topic)
    }

    /// A consumer under test, without the line that can be cut.
    pub fn plain(&self) -> Consumer<kafka::Topic, Credit> {
        kafka::Consumer::new(&self.config(), &*self.topic).dead_letter(self.dead_letter_topic())
    }

    /// Makes a topic.
    pub async fn create(&self, topic: &str, partitions: i32) {
        let admin: AdminClient<DefaultClientContext> = self.config().create().unwrap();
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let created = admin.create_topics([&new], &AdminOptions::new().request_timeout(Some(ANSWER))).await;
        let created = created.unwrap_or_else(|error| panic!("no Kafka at {} (IDEM_TEST_KAFKA): {error}", self.address));
        assert!(created.iter().all(Result::is_ok), "{created:?}");
    }

    /// Sends to a topic, with a key.
    pub async fn send_to(&self, topic: &str, messages: &[(Option<String>, String)]) {
        let producer: FutureProducer = self.config().set("linger.ms", "0").create().unwrap();
        let sending = messages.iter().map(|(key, payload)| {
            let headers = OwnedHeaders::new().insert(Header { key: "tenant", value: Some("acme") });
            let mut record = FutureRecord::<str, str>::to(topic).payload(payload).headers(headers);
            record.key = key.as_deref();
            producer.send_result(record).map_err(|(error, _)| error).unwrap()
        });
        for sent in sending.collect::<Vec<_>>() {
            sent.await.unwrap().unwrap();
        }
    }

    /// Moves a group to the end of a topic, and says what it passes by: keys, payloads and headers.
    pub async fn drain(&self, group: &str, topic: &str) -> Vec<(String, String, Vec<(String, String)>)> {
        let (mut config, topic) = (self.config(), topic.to_owned());
        config.set("group.id", group).set("enable.auto.commit", "false");
        tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let mut found = Vec::new();
            for (partition, from, end) in spans(&consumer, &topic) {
                if from >= end {
                    continue;
                }
                let mut from_here = TopicPartitionList::new();
                from_here.add_partition_offset(&topic, partition, Offset::Offset(from)).unwrap();
                consumer.assign(&from_here).unwrap();
                let mut at = from;
                while at < end {
                    let message = consumer.poll(ANSWER).expect("a message").unwrap();
                    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
                    let headers = headers.map(|header| (header.key.to_owned(), text(header.value))).collect();
                    found.push((text(message.key()), text(message.payload()), headers));
                    at = message.offset() + 1;
                }
                let mut to = TopicPartitionList::new();
                to.add_partition_offset(&topic, partition, Offset::Offset(end)).unwrap();
                consumer.commit(&to, CommitMode::Sync).unwrap();
            }
            found
        })
        .await
        .unwrap()
    }

    /// How many messages of a topic the test's group has not committed.
    pub async fn lag(&self, topic: &str) -> u64 {
        let (config, topic) = (self.config(), topic.to_owned());
        tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let lag = |(_, from, end): &(i32, i64, i64)| u64::try_from(end - from).expect("nothing beyond the end");
            spans(&consumer, &topic).iter().map(lag).sum()
        })
        .await
        .unwrap()
    }
}

/// By partition: the first offset that the group has not committed, and the end.
fn spans(consumer: &BaseConsumer, topic: &str) -> Vec<(i32, i64, i64)> {
    let metadata = consumer.fetch_metadata(Some(topic), ANSWER).unwrap();
    let partitions = metadata.topics()[0].partitions().iter().map(rdkafka::metadata::MetadataPartition::id);
    let span = |partition| {
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, partition);
        let committed = consumer.committed_offsets(asked, ANSWER).unwrap();
        let (low, high) = consumer.fetch_watermarks(topic, partition, ANSWER).unwrap();
        let from = match committed.elements()[0].offset() {
            Offset::Offset(offset) => offset.max(low),
            _ => low,
        };
        (partition, from, high)
    };
    partitions.map(span).collect()
}

impl Harness for Kafka {
    type Adapter = Broken;
    type Line = Wire;

    /// Nothing runs out: the client is polled whatever the handlers do.
    const LEASE: Duration = Duration::from_secs(3);
    /// A group forms in three seconds, and misses a member in six.
    const SETTLED: Duration = Duration::from_secs(15);

    async fn new(server: Server) -> Self {
        let node = match server {
            Server::Own => Some(Node::new().await),
            Server::Shared | Server::OwnWithLease => None,
        };
        let address = node.as_ref().map_or_else(shared, Node::address);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let topic = format!("idem-test.{since}.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let kafka = Self { node, address, topic };
        kafka.create(&kafka.topic, 1).await;
        kafka.create(&kafka.dead_letter_topic(), 1).await;
        kafka
    }

    fn described(&self) -> String {
        format!("{} {}", self.address, self.topic)
    }

    async fn attach(described: &str) -> Self {
        let (address, topic) = described.split_once(' ').expect("an address and a topic");
        Self { node: None, address: address.parse().expect("an address"), topic: topic.to_owned() }
    }

    async fn consumer(&self) -> (Consumer<Broken, Credit>, Wire) {
        let mut config = self.config();
        if self.node.is_none() {
            // The handler that is slower than the broker waits.
            config.set("max.poll.interval.ms", "6000");
        }
        let mut consumer: Consumer<kafka::Topic, Credit> =
            kafka::Consumer::new(&config, &*self.topic).dead_letter(self.dead_letter_topic());
        let topic = consumer.adapter_mut().clone();
        let wire = Wire::default();
        (Consumer::of(Broken { topic, wire: wire.clone() }), wire)
    }

    async fn send(&self, payload: &str) {
        self.send_to(&self.topic, &[(None, payload.to_owned())]).await;
    }

    async fn send_all(&self, payloads: &[String]) {
        let messages: Vec<_> = payloads.iter().map(|payload| (None, payload.clone())).collect();
        self.send_to(&self.topic, &messages).await;
    }

    async fn dead_letters(&self) -> Vec<(String, Vec<(String, String)>)> {
        let group = format!("{}.idem-redrive", self.topic);
        let letters = self.drain(&group, &self.dead_letter_topic()).await;
        letters.into_iter().map(|(_, payload, headers)| (payload, headers)).collect()
    }

    async fn left(&self) -> u64 {
        self.lag(&self.topic).await
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
        let admin: AdminClient<DefaultClientContext> = self.config().create().unwrap();
        let topics = [self.topic.clone(), self.dead_letter_topic()];
        let topics: Vec<_> = topics.iter().map(String::as_str).collect();
        let _ = admin.delete_topics(&topics, &AdminOptions::new().request_timeout(Some(ANSWER))).await;
    }
}

/// Waits until the broker answers.
async fn answers(address: SocketAddr) -> bool {
    tokio::task::spawn_blocking(move || {
        let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", address.to_string()).create().unwrap();
        client.fetch_metadata(None, Timeout::After(Duration::from_secs(2))).is_ok()
    })
    .await
    .unwrap()
}
