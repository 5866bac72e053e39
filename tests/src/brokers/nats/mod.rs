//! NATS JetStream, on its real server.

mod node;

use super::{Credit, Harness, Line, Server};
use crate::proxy::{Cut, Proxy};
use async_nats::{
    HeaderMap,
    jetstream::{
        self, Context,
        consumer::{self, Consumer as Durable},
        stream::{Config, RawMessageErrorKind},
    },
};
use idem_runtime::{consume::Consumer, nats};
use node::Node;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

fn shared() -> SocketAddr {
    let address = std::env::var("IDEM_TEST_NATS").unwrap_or_else(|_| "127.0.0.1:4222".to_owned());
    address.parse().unwrap_or_else(|error| panic!("IDEM_TEST_NATS={address} is no address: {error}"))
}

/// A stream of the test's own.
pub struct Nats {
    node: Option<Node>,
    address: SocketAddr,
    /// Its name.
    pub stream: String,
    ack_wait: Duration,
}

/// A consumer's connection, through a proxy.
pub struct Wire(Proxy);

/// What the consumer is called on the server.
pub const DURABLE: &str = "credit";

async fn connect(address: SocketAddr) -> Context {
    let client = async_nats::connect(address.to_string()).await;
    jetstream::new(client.unwrap_or_else(|error| panic!("no NATS at {address} (IDEM_TEST_NATS): {error}")))
}

impl Nats {
    /// A connection of the test's own, past the proxies.
    pub async fn context(&self) -> Context {
        connect(self.address).await
    }

    /// The subject of its messages.
    pub fn subject(&self) -> String {
        format!("{}.credit", self.stream)
    }

    /// The stream of its dead letters.
    pub fn dead_letter_stream(&self) -> String {
        format!("{}-dead", self.stream)
    }

    /// The subject of its dead letters.
    pub fn dead_letter_subject(&self) -> String {
        format!("{}-dead.credit", self.stream)
    }

    /// The consumer as the server has it.
    pub async fn durable(&self) -> Option<consumer::Info> {
        let found: Result<Durable<consumer::Config>, _> =
            self.context().await.get_consumer_from_stream(DURABLE, &self.stream).await;
        found.ok().map(|found| found.cached_info().clone())
    }
}

impl Harness for Nats {
    type Adapter = nats::Source;
    type Line = Wire;

    const LEASE: Duration = Duration::from_secs(1);

    async fn new(server: Server) -> Self {
        let node = match server {
            Server::Shared => None,
            Server::Own | Server::OwnWithLease => Some(Node::new().await),
        };
        // What a consumer held that is gone comes again after this time; the suite gives it two seconds after a break.
        let ack_wait = if server == Server::Shared { Duration::from_secs(4) } else { Self::LEASE };
        let address = node.as_ref().map_or_else(shared, Node::address);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let stream = format!("idem-test-{since}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let nats = Self { node, address, stream, ack_wait };
        let context = nats.context().await;
        for name in [nats.stream.clone(), nats.dead_letter_stream()] {
            let subjects = vec![format!("{name}.>")];
            context.create_stream(Config { name, subjects, ..Config::default() }).await.unwrap();
        }
        nats
    }

    fn described(&self) -> String {
        format!("{} {} {}", self.address, self.stream, self.ack_wait.as_millis())
    }

    async fn attach(described: &str) -> Self {
        let mut words = described.split(' ');
        let mut word = || words.next().expect("an address, a stream and its ack_wait");
        let (address, stream) = (word().parse().expect("an address"), word().to_owned());
        let ack_wait = Duration::from_millis(word().parse().expect("milliseconds"));
        Self { node: None, address, stream, ack_wait }
    }

    async fn consumer(&self) -> (Consumer<nats::Source, Credit>, Wire) {
        let proxy = Proxy::start(self.address, Duration::ZERO).await.unwrap();
        let context = connect(proxy.address()).await;
        let consumer = nats::Consumer::new(context, &*self.stream, DURABLE)
            .dead_letter(self.dead_letter_subject())
            .ack_wait(self.ack_wait)
            .declare();
        (consumer, Wire(proxy))
    }

    async fn send(&self, payload: &str) {
        self.send_all(&[payload.to_owned()]).await;
    }

    async fn send_all(&self, payloads: &[String]) {
        let context = self.context().await;
        for payload in payloads {
            let mut headers = HeaderMap::new();
            headers.insert("tenant", "acme");
            let sent = context.publish_with_headers(self.subject(), headers, payload.clone().into()).await.unwrap();
            assert!(!sent.await.unwrap().duplicate);
        }
    }

    async fn dead_letters(&self) -> Vec<(String, Vec<(String, String)>)> {
        let stream = self.context().await.get_stream(self.dead_letter_stream()).await.unwrap();
        let mut letters = Vec::new();
        loop {
            let letter = match stream.get_first_raw_message_by_subject(self.dead_letter_subject(), 1).await {
                Ok(letter) => letter,
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return letters,
                Err(error) => panic!("{error}"),
            };
            let headers = letter.headers.iter().flat_map(|(name, values)| {
                values.iter().map(move |value| (name.to_string(), value.as_str().to_owned()))
            });
            letters.push((String::from_utf8_lossy(&letter.payload).into_owned(), headers.collect()));
            stream.delete_message(letter.sequence).await.unwrap();
        }
    }

    async fn left(&self) -> u64 {
        let info = self.durable().await.expect("a consumer");
        info.num_pending + info.num_ack_pending as u64
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
        let context = self.context().await;
        for stream in [self.stream.clone(), self.dead_letter_stream()] {
            let _ = context.delete_stream(stream).await;
        }
    }
}

impl Line for Wire {
    async fn cut(&self) {
        // For good: a client that comes back goes on saying that the message is at work.
        self.0.refuse(true);
        self.0.break_all();
        tokio::task::yield_now().await;
    }

    async fn lose_next_ack(&self) {
        self.0.cut_once("+ACK", Cut::Before).await;
    }
}
