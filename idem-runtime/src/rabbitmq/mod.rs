//! RabbitMQ, through [`lapin`].
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")] mod example {
//! use idem_runtime::{SqliteStore, idempotent, rabbitmq};
//! use lapin::{Connection, ConnectionProperties};
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
//! let properties = ConnectionProperties::default().enable_auto_recover();
//! let connection = Connection::connect("amqp://localhost:5672", properties).await?;
//! let channel = connection.create_channel().await?;
//! rabbitmq::Consumer::new(channel, "deduct")
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
//! # The channel
//!
//! Give the consumer a channel of its own: it sets its prefetch and its publisher confirms, and closes it at the end, which
//! returns to the queue whatever was not settled. With `enable_auto_recover` the consumer survives a broker that restarts.
//! The client's pauses between its tries to come back double from a second to a minute, and after 16 of them (some eleven
//! minutes) [`run`](crate::consume::Consumer::run) ends with an error: `configure_backoff` of the connection's properties
//! sets both.
//! Deliveries of before the break are then still handed out for a moment, and again afterwards: their acks are
//! [`AckOutcome::Lost`](crate::consume::AckOutcome::Lost), and their repeats are duplicates. Without it [`run`](crate::consume::Consumer::run) ends with an
//! error, and a new channel is wanted.
//!
//! # What is declared
//!
//! | queue | | unless [`declare_nothing`](crate::consume::Consumer::declare_nothing) |
//! | --- | --- | --- |
//! | the queue itself | is only looked for | [`declare`](crate::consume::Consumer::declare) makes it a durable quorum queue, with the dead letters behind its delivery limit |
//! | the dead letters | a durable quorum queue | is only looked for |
//! | `<queue>.idem-retry.<milliseconds>` | a durable quorum queue for each step of the backoff, from which messages come back by themselves | are only looked for |
//!
//! A queue that exists with other arguments refuses the start, with RabbitMQ's reason.
//!
//! # Attempts
//!
//! A retry is a copy, which carries the count in a header. Deliveries that end in a killed process are counted by a quorum
//! queue (and limited by its delivery limit). A classic queue only says that a delivery is a repeat: use
//! [`count_attempts_in`](crate::consume::Consumer::count_attempts_in) where a message can kill the process. A queue of
//! your own needs `x-delivery-limit` and a dead-letter exchange: RabbitMQ 4 has a limit of 20 by default, and drops a
//! message there when it has nowhere to go.
//!
//! # Order
//!
//! [`ordered_by`](crate::consume::Consumer::ordered_by) keeps the order in which one consumer takes the messages. For an
//! order over several consumers the queue must have `x-single-active-consumer`, which [`declare`](crate::consume::Consumer::declare)
//! sets then. A message that RabbitMQ had to take back, because its consumer was gone, comes back in its place.
//!
//! # Time
//!
//! RabbitMQ closes the channel of a consumer that holds a delivery for 30 minutes
//! ([`consumer_timeout`](crate::consume::Consumer::consumer_timeout)), and cannot be told to wait.

mod message;
mod queue;
mod redrive;
mod settle;

pub use queue::Queue;
pub use settle::Ticket;

use crate::consume::{self, Json};
use std::time::Duration;

/// A consumer of a RabbitMQ queue; see [the module](self).
pub type Consumer<M, D = Json> = consume::Consumer<Queue, M, D>;

impl<M> Consumer<M> {
    /// A consumer of `queue`, on a channel of its own.
    pub fn new(channel: lapin::Channel, queue: impl Into<String>) -> Self {
        Self::of(Queue::new(channel, queue.into()))
    }
}

impl<M, D> Consumer<M, D> {
    /// The queue for messages that cannot be handled. Without one the consumer starts only with
    /// [`unlimited_attempts`](Self::unlimited_attempts), and messages with permanent errors come again and again.
    pub fn dead_letter(mut self, queue: impl Into<String>) -> Self {
        self.adapter_mut().dead_letter = Some(queue.into());
        self
    }

    /// Declares the queue itself: durable, a quorum queue, with the dead letters behind its delivery limit.
    pub fn declare(mut self) -> Self {
        self.adapter_mut().declares = queue::Declares::All;
        self
    }

    /// How many deliveries of one copy may end without an answer of ours (a killed process, a lost connection) before
    /// RabbitMQ itself puts it with the dead letters; 20 by default. An argument of the queue that [`declare`](Self::declare)
    /// makes, so it cannot be changed afterwards.
    pub fn delivery_limit(mut self, deliveries: u32) -> Self {
        self.adapter_mut().delivery_limit = deliveries;
        self
    }

    /// Declares no queue: all of them are made by somebody else, and only looked for.
    pub fn declare_nothing(mut self) -> Self {
        self.adapter_mut().declares = queue::Declares::Nothing;
        self
    }

    /// How many deliveries RabbitMQ may have on the way to this consumer; by default as many as it holds. Fewer than
    /// the concurrency are refused at the start.
    pub fn prefetch(mut self, deliveries: u16) -> Self {
        self.adapter_mut().prefetch = Some(deliveries);
        self
    }

    /// The server's `consumer_timeout`, or the queue's `x-consumer-timeout`: 30 minutes unless it was changed.
    pub fn consumer_timeout(mut self, timeout: Duration) -> Self {
        self.adapter_mut().consumer_timeout = timeout;
        self
    }
}
