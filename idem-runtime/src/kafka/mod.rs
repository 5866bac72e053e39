//! Kafka, through [`rdkafka`].
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")] mod example {
//! use idem_runtime::{SqliteStore, idempotent, kafka};
//! use rdkafka::ClientConfig;
//! use sqlx::SqliteConnection;
//!
//! #[derive(serde::Deserialize)]
//! struct Deduct {
//!     order_no: String,
//!     sku: String,
//!     quantity: i64,
//! }
//!
//! #[idempotent(key = msg.order_no + ":" + msg.sku, store = db, scope = "stock.deduct")]
//! async fn on_deduct(db: &mut SqliteConnection, msg: &Deduct) -> Result<(), sqlx::Error> {
//!     sqlx::query("UPDATE stock SET count = count - ? WHERE sku = ?")
//!         .bind(msg.quantity)
//!         .bind(&msg.sku)
//!         .execute(&mut *db)
//!         .await?;
//!     Ok(())
//! }
//!
//! # pub async fn consume(store: SqliteStore) -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = ClientConfig::new();
//! config.set("bootstrap.servers", "localhost:9092").set("group.id", "stock");
//! kafka::Consumer::new(&config, "deduct")
//!     .dead_letter("deduct.dlq")
//!     .covered_by(&store)
//!     .concurrency(16)
//!     .run(async |d| on_deduct(&store, d.message()).await)
//!     .await?;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! # What is set, and what is refused
//!
//! `enable.auto.commit` and `enable.auto.offset.store` are off, and a configuration that turns one on is refused: it
//! commits what no handler has finished. `auto.offset.reset` is `earliest`, and `latest` is refused: it skips messages
//! of a partition that has no committed offset. Topics must be there, or be made with
//! [`declare`](crate::consume::Consumer::declare).
//!
//! # Offsets
//!
//! Kafka keeps one number for a group and a partition: all before it is done. Handlers end in any order, so the consumer
//! commits the first offset that is *not* done, about ten times a second, and at last when it stops and when a partition is
//! taken from it. After a crash those come again that are not done, and those behind them that are: they are duplicates.
//! An ack is [`AckOutcome::Sent`](crate::consume::AckOutcome::Sent) when the partition was still ours; the claim in the
//! database decides.
//!
//! # One slow key
//!
//! A message that takes long, or waits for its retry, holds up the commit of its partition and nothing else. When
//! [`unsettled`](crate::consume::Consumer::unsettled) messages were taken behind it, its partition is paused.
//!
//! # Retries and attempts
//!
//! Kafka has no retry. By default a failed message waits in the memory of this consumer, and others go on; its attempts
//! are counted there, and begin anew when the process ends or the partition moves:
//! [`count_attempts_in`](crate::consume::Consumer::count_attempts_in) counts them in the database. With
//! [`retry_topics`](crate::consume::Consumer::retry_topics) a copy goes to a topic `<topic>.idem-retry.<milliseconds>`, and
//! carries its count along; copies lose the order.
//!
//! Dead letters are copies, with the key and the headers of the message, in partition and order of the dead-letter topic's
//! own. A copy is confirmed by all in-sync replicas before the offset of the original is done.
//!
//! # Order
//!
//! Kafka keeps the order within a partition. [`ordered_by`](crate::consume::Consumer::ordered_by) keeps that of each key,
//! and of a partition that moves to another consumer: but a handler that still runs there runs beside its repeat, of which
//! the claim lets one through.
//!
//! # Rebalances and time
//!
//! A thread of its own polls the client, so a handler may take longer than `max.poll.interval.ms`, and a consumer without
//! room stays in its group: its partitions are paused. When a partition is taken away, what is done is committed, what
//! waits is forgotten, and handlers that still run settle as
//! [`NotOwner`](crate::consume::AckOutcome::NotOwner): their messages are the next owner's duplicates.
//!
//! # The record key
//!
//! It is given to the handler as a header, `kafka-key`. Partition and offset are no identity: a message that was sent again
//! has others.

mod client;
mod message;
mod poll;
mod redrive;
mod settle;
mod topic;
mod watermark;
mod window;

pub use poll::Reading;
pub use settle::Ticket;
pub use topic::Topic;

use crate::consume::{self, Json};
use rdkafka::ClientConfig;
use std::time::Duration;

/// A consumer of Kafka topics; see [the module](self).
pub type Consumer<M, D = Json> = consume::Consumer<Topic, M, D>;

impl<M> Consumer<M> {
    /// A consumer of `topic`. The configuration has at least `bootstrap.servers` and `group.id`.
    pub fn new(config: &ClientConfig, topic: impl Into<String>) -> Self {
        Self::of(Topic::new(config.clone(), topic.into()))
    }
}

impl<M, D> Consumer<M, D> {
    /// One more topic to consume, with messages of the same kind.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.adapter_mut().topics.push(topic.into());
        self
    }

    /// The topic for messages that cannot be handled. Without one the consumer starts only with
    /// [`unlimited_attempts`](Self::unlimited_attempts), and messages with permanent errors come again and again.
    pub fn dead_letter(mut self, topic: impl Into<String>) -> Self {
        self.adapter_mut().dead_letter = Some(topic.into());
        self
    }

    /// Makes the topics that are missing, the dead letters' and the retries' included, with so many partitions and
    /// replicas each.
    pub fn declare(mut self, partitions: i32, replicas: i32) -> Self {
        self.adapter_mut().declares = Some((partitions, replicas));
        self
    }

    /// Failed messages wait as copies in topics, one for each step of the backoff, and not in memory. Their attempts
    /// survive a restart; their order does not, so it is refused with [`ordered_by`](Self::ordered_by).
    pub fn retry_topics(mut self) -> Self {
        self.adapter_mut().retry_topics = true;
        self
    }

    /// How many messages of one partition may be taken behind one that is not settled before the partition is paused;
    /// 1000 by default, at least 1.
    pub fn unsettled(mut self, messages: usize) -> Self {
        self.adapter_mut().unsettled = messages.max(1);
        self
    }

    /// The longest time after which a message can come again, where it is known better than from the topic's
    /// `retention.ms` and `segment.ms`: nobody sets the group's offsets back further.
    pub fn redelivered_within(mut self, longest: Duration) -> Self {
        self.adapter_mut().redelivered_within = Some(longest);
        self
    }
}
