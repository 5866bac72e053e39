//! A topic and a group of the test's own.

use crate::{node::Node, wire::Wire};
use idem_rocketmq::{Consumer, Topic};
use idem_tests::brokers::{Credit, Harness, Server};
use rocketmq_client_rust::{
    ClientConfig, ClientOptions, ClientRuntime, ClientRuntimeConfig, DefaultLitePullConsumer, DefaultMQProducer,
    SendStatus, TelemetryHandle,
};
use rocketmq_model::common::{
    consumer::consume_from_where::ConsumeFromWhere,
    message::{MessageTrait as _, message_ext::MessageExt, message_queue::MessageQueue, message_single::Message},
};
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

fn named(variable: &str) -> SocketAddr {
    let address = std::env::var(variable)
        .unwrap_or_else(|_| panic!("no RocketMQ: {variable} is not set. ./scripts/services up says it"));
    address.parse().unwrap_or_else(|error| panic!("{variable}={address} is no address: {error}"))
}

/// The test's own clients, past the proxies.
struct Clients {
    _owner: RuntimeOwner,
    runtime: Arc<ClientRuntime>,
    options: ClientOptions,
    producer: DefaultMQProducer,
}

/// A topic on a server.
pub(crate) struct Rocket {
    node: Option<Node>,
    pub(crate) name_server: SocketAddr,
    broker: SocketAddr,
    pub(crate) topic: String,
    lease: Option<Duration>,
    clients: Clients,
}

impl Clients {
    async fn new(name_server: SocketAddr) -> Self {
        let config = RuntimeConfig::for_parallelism("idem-test", 2);
        let owner = RuntimeOwner::plan(config).unwrap().build().unwrap();
        let context = owner.root_context().component("test");
        let runtime = ClientRuntime::try_new(context, ClientRuntimeConfig::default(), TelemetryHandle::noop()).unwrap();
        let mut config = ClientConfig { namesrv_addr: Some(name_server.to_string().into()), ..Default::default() };
        quick(&mut config);
        let options = ClientOptions::legacy(config);
        let builder = DefaultMQProducer::builder(runtime.clone());
        let mut producer = builder.client_options(options.clone()).producer_group("idem-test").build();
        Box::pin(producer.start()).await.unwrap();
        Self { _owner: owner, runtime, options, producer }
    }

    async fn reader(&self, group: &str) -> DefaultLitePullConsumer {
        let reader = DefaultLitePullConsumer::builder(self.runtime.clone())
            .client_options(self.options.clone())
            .consumer_group(group)
            .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
            .auto_commit(false)
            // It stops only when the broker has answered what it has asked.
            .broker_suspend_max_time_millis(1000)
            .build()
            .unwrap();
        Box::pin(reader.start()).await.unwrap();
        reader
    }
}

/// A client that soon notices a broker that is back.
fn quick(config: &mut ClientConfig) {
    config.poll_name_server_interval = 10_000;
    config.heartbeat_broker_interval = 10_000;
}

impl Rocket {
    pub(crate) fn group(&self) -> String {
        format!("{}-group", self.topic)
    }

    pub(crate) fn dead_letter_topic(&self) -> String {
        format!("{}-dlq", self.topic)
    }

    /// The adapter on the real server, past the proxies.
    pub(crate) fn adapter(&self) -> Topic {
        Topic::new(&*self.topic)
            .group(self.group())
            .name_server(self.name_server.to_string())
            .dead_letter(self.dead_letter_topic())
            .configure(quick)
    }

    /// Sends a message with these properties.
    pub(crate) async fn send_with(&self, payload: &str, properties: &[(&str, &str)]) {
        let mut message = Message::builder().topic(&*self.topic).body(payload.as_bytes().to_vec()).build_unchecked();
        for (name, value) in properties {
            message.put_property((*name).into(), (*value).into());
        }
        let sent = Box::pin(self.clients.producer.send(message)).await.unwrap().unwrap();
        assert_eq!(sent.send_status, SendStatus::SendOk);
    }

    /// Sends a message to one of the topic's queues.
    pub(crate) async fn send_to_queue(&self, payload: &str, queue: i32) {
        let message = Message::builder().topic(&*self.topic).body(payload.as_bytes().to_vec()).build_unchecked();
        let reader = self.clients.reader("idem-test-reader").await;
        let queues = Box::pin(reader.fetch_message_queues(&self.topic)).await.unwrap();
        let queue = queues.into_iter().find(|found| found.queue_id() == queue).unwrap();
        Box::pin(self.clients.producer.send_to_queue(message, queue)).await.unwrap();
        Box::pin(reader.shutdown()).await;
    }

    /// Whether there is such a topic.
    pub(crate) async fn has_topic(&self, topic: &str) -> bool {
        let reader = self.clients.reader("idem-test-reader").await;
        let found = Box::pin(reader.fetch_message_queues(topic)).await.is_ok();
        Box::pin(reader.shutdown()).await;
        found
    }

    /// How many messages of a topic the group has still to get.
    async fn lag(&self, reader: &DefaultLitePullConsumer, topic: &str) -> u64 {
        // There is no topic of retries before the first.
        let queues = Box::pin(reader.fetch_message_queues(topic)).await.unwrap_or_default();
        let mut lag = 0;
        for queue in &queues {
            let end = Box::pin(reader.max_offset(queue)).await.unwrap();
            let come_to = Box::pin(reader.committed(queue)).await.unwrap();
            lag += u64::try_from(end - come_to.max(0)).unwrap();
        }
        lag
    }

    /// All messages of a topic that a group has not read yet.
    pub(crate) async fn take(&self, topic: &str, group: &str) -> Vec<MessageExt> {
        let reader = self.clients.reader(group).await;
        let queues: Vec<MessageQueue> =
            Box::pin(reader.fetch_message_queues(topic)).await.unwrap().into_iter().collect();
        let mut ends = HashMap::new();
        let mut left = 0;
        for queue in &queues {
            let end = Box::pin(reader.max_offset(queue)).await.unwrap();
            left += end - Box::pin(reader.committed(queue)).await.unwrap().max(0);
            ends.insert(queue.clone(), end);
        }
        Box::pin(reader.assign(queues)).await.unwrap();
        let mut taken = Vec::new();
        while i64::try_from(taken.len()).unwrap() < left {
            taken.extend(Box::pin(reader.poll_with_timeout(500)).await);
        }
        Box::pin(reader.commit_sync_with_map(ends, true)).await;
        Box::pin(reader.shutdown()).await;
        taken
    }
}

impl Harness for Rocket {
    type Adapter = Topic;
    type Line = Wire;

    // It is the client that gives up on a listener.
    const LEASE: Duration = Duration::from_secs(1);
    // It has its queues and their first messages after two seconds, on a quiet machine.
    const SETTLING: Duration = Duration::from_secs(8);

    async fn new(server: Server) -> Self {
        let node = if server == Server::Own { Some(Node::new().await) } else { None };
        let (name_server, broker) = match &node {
            Some(node) => (node.name_server(), node.broker()),
            None => (named("IDEM_TEST_ROCKETMQ"), named("IDEM_TEST_ROCKETMQ_BROKER")),
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let topic = format!("idem-test-{since}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let lease = (server == Server::OwnWithLease).then_some(Self::LEASE);
        let clients = Clients::new(name_server).await;
        let mut rocket = Self { node, name_server, broker, topic, lease, clients };
        for topic in [rocket.topic.clone(), rocket.dead_letter_topic()] {
            // A broker that has just started is not known everywhere yet.
            for tries in 0.. {
                let created = rocket.clients.producer.create_topic("TBW102", &topic, 4, HashMap::new());
                match Box::pin(created).await {
                    Ok(()) => break,
                    Err(error) => assert!(tries < 100, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        rocket
    }

    fn described(&self) -> String {
        format!("{} {} {}", self.name_server, self.broker, self.topic)
    }

    async fn attach(described: &str) -> Self {
        let [name_server, broker, topic] = described.split(' ').collect::<Vec<_>>()[..] else { panic!("{described}") };
        let name_server = name_server.parse().expect("an address");
        let clients = Clients::new(name_server).await;
        let broker = broker.parse().expect("an address");
        Self { node: None, name_server, broker, topic: topic.to_owned(), lease: None, clients }
    }

    async fn consumer(&self) -> (Consumer<Credit>, Wire) {
        let wire = Wire::new(self.name_server, self.broker).await;
        let mut topic = self.adapter().name_server(wire.name_server.to_string());
        if let Some(lease) = self.lease {
            topic = topic.consume_timeout(lease);
        }
        (Consumer::of(topic), wire)
    }

    async fn send(&self, payload: &str) {
        self.send_with(payload, &[("tenant", "acme")]).await;
    }

    async fn dead_letters(&self) -> Vec<(String, Vec<(String, String)>)> {
        // Redriving reads on from here, and this from there.
        let group = format!("{}-redrive", self.group());
        let letters = self.take(&self.dead_letter_topic(), &group).await;
        let properties = |letter: &MessageExt| {
            letter.properties().iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let payload = |letter: &MessageExt| String::from_utf8(letter.body().unwrap().to_vec()).unwrap();
        letters.iter().map(|letter| (payload(letter), properties(letter))).collect()
    }

    async fn left(&self) -> u64 {
        // Those that wait for their time are nobody's.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let reader = self.clients.reader(&self.group()).await;
        let left = self.lag(&reader, &self.topic).await + self.lag(&reader, &format!("%RETRY%{}", self.group())).await;
        Box::pin(reader.shutdown()).await;
        left
    }

    async fn stop(&mut self) {
        self.node.as_mut().unwrap().end("-TERM").await;
    }

    async fn kill(&mut self) {
        self.node.as_mut().unwrap().end("-KILL").await;
    }

    async fn start(&mut self) {
        self.node.as_mut().unwrap().start().await;
        // Until the name server knows of it.
        while Box::pin(self.clients.producer.fetch_publish_message_queues(&self.topic)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    // Topics stay: the client has no means to delete one.
    async fn close(self) {}
}
