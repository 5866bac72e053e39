//! Redis Streams, on its real server.

mod node;

use super::{Credit, Harness, Line, Server};
use crate::proxy::{Cut, Proxy};
use idem_runtime::{consume::Consumer, redis_streams};
use node::Node;
use redis::{Client, FromRedisValue, aio::MultiplexedConnection};
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

fn shared() -> SocketAddr {
    let url = std::env::var("IDEM_TEST_REDIS").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let address = url.trim_start_matches("redis://").split('/').next().unwrap_or_default();
    address.parse().unwrap_or_else(|error| panic!("IDEM_TEST_REDIS={url} has no address: {error}"))
}

/// A stream of the test's own.
pub struct Streams {
    node: Option<Node>,
    address: SocketAddr,
    /// Its name.
    pub stream: String,
    lease: Duration,
}

/// A consumer's connections, through a proxy.
pub struct Wire(Proxy);

/// The name of the group.
pub const GROUP: &str = "credit";

/// An entry: its id, and names and values in turn.
pub type Entry = (String, Vec<String>);
/// What is pending: id, owner, milliseconds, deliveries.
pub type Pending = (String, String, u64, u32);

fn client(address: SocketAddr) -> Client {
    Client::open(format!("redis://{address}")).unwrap()
}

impl Streams {
    /// The server, past the proxies.
    pub fn client(&self) -> Client {
        client(self.address)
    }

    async fn connection(&self) -> MultiplexedConnection {
        let connection = self.client().get_multiplexed_async_connection().await;
        connection.unwrap_or_else(|error| panic!("no Redis at {} (IDEM_TEST_REDIS): {error}", self.address))
    }

    /// Runs a command.
    pub async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let mut asked = redis::Cmd::new();
        for word in command {
            asked.arg(word);
        }
        asked.query_async(&mut self.connection().await).await.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// The stream of its dead letters.
    pub fn dead_letter(&self) -> String {
        format!("{}-dead", self.stream)
    }

    /// The set of due times.
    pub fn retries(&self) -> String {
        format!("{}:idem-retry:{GROUP}", self.stream)
    }

    /// What the group has pending.
    pub async fn pending(&self) -> Vec<Pending> {
        self.ask(&["XPENDING", &self.stream, GROUP, "-", "+", "1000"]).await
    }
}

impl Harness for Streams {
    type Adapter = redis_streams::Source;
    type Line = Wire;

    const LEASE: Duration = Duration::from_secs(1);

    async fn new(server: Server) -> Self {
        let node = match server {
            Server::Shared => None,
            Server::Own | Server::OwnWithLease => Some(Node::new().await),
        };
        // What a consumer held that is gone comes again after this time; the suite gives it two seconds after a break.
        let lease = if server == Server::Shared { Duration::from_secs(4) } else { Self::LEASE };
        let address = node.as_ref().map_or_else(shared, Node::address);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { node, address, stream: format!("idem-test-{since}-{}-{number}", std::process::id()), lease }
    }

    fn described(&self) -> String {
        format!("{} {} {}", self.address, self.stream, self.lease.as_millis())
    }

    async fn attach(described: &str) -> Self {
        let mut words = described.split(' ');
        let mut word = || words.next().expect("an address, a stream and its lease");
        let (address, stream) = (word().parse().expect("an address"), word().to_owned());
        let lease = Duration::from_millis(word().parse().expect("milliseconds"));
        Self { node: None, address, stream, lease }
    }

    async fn consumer(&self) -> (Consumer<redis_streams::Source, Credit>, Wire) {
        let proxy = Proxy::start(self.address, Duration::ZERO).await.unwrap();
        let consumer = redis_streams::Consumer::new(client(proxy.address()), &*self.stream, GROUP)
            .dead_letter(self.dead_letter())
            .lease(self.lease)
            .declare();
        (consumer, Wire(proxy))
    }

    async fn send(&self, payload: &str) {
        let _: String = self.ask(&["XADD", &self.stream, "*", "tenant", "acme", "payload", payload]).await;
    }

    async fn send_all(&self, payloads: &[String]) {
        let mut all = redis::pipe();
        for payload in payloads {
            all.cmd("XADD").arg(&self.stream).arg("*").arg("tenant").arg("acme").arg("payload").arg(payload).ignore();
        }
        let () = all.query_async(&mut self.connection().await).await.unwrap();
    }

    async fn dead_letters(&self) -> Vec<(String, Vec<(String, String)>)> {
        let letters: Vec<Entry> = self.ask(&["XRANGE", &self.dead_letter(), "-", "+"]).await;
        let _: u64 = self.ask(&["DEL", &self.dead_letter()]).await;
        let letters = letters.into_iter().map(|(_, fields)| {
            let fields = fields.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
            let (payload, headers): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| name == "payload");
            (payload.into_iter().next().map(|(_, value)| value).unwrap_or_default(), headers)
        });
        letters.collect()
    }

    async fn left(&self) -> u64 {
        let groups: Vec<HashMap<String, redis::Value>> = self.ask(&["XINFO", "GROUPS", &self.stream]).await;
        let [group] = &groups[..] else { panic!("{groups:?}") };
        let last: String = redis::from_redis_value_ref(&group["last-delivered-id"]).unwrap();
        let new: Vec<Entry> = self.ask(&["XRANGE", &self.stream, &format!("({last}"), "+"]).await;
        (self.pending().await.len() + new.len()) as u64
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
        let _: u64 = self.ask(&["DEL", &self.stream, &self.dead_letter(), &self.retries()]).await;
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
        self.0.cut_once("$3\r\nack\r\n", Cut::Before).await;
    }
}
