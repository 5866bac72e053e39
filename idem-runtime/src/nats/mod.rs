//! NATS JetStream, through [`async_nats`].
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")] mod example {
//! use idem_runtime::{SqliteStore, idempotent, nats};
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
//! let client = async_nats::connect("localhost:4222").await?;
//! let jetstream = async_nats::jetstream::new(client);
//! nats::Consumer::new(jetstream, "ORDERS", "deduct")
//!     .dead_letter("dead.deduct")
//!     .declare()
//!     .covered_by(&store)
//!     .concurrency(16)
//!     .run(async |d| on_deduct(&store, d.message()).await)
//!     .await?;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! # What is declared
//!
//! The stream, and the one that captures the subject of the dead letters, are yours. [`declare`](crate::consume::Consumer::declare)
//! makes the durable pull consumer, or changes what can be changed of one that is there: explicit acks, no `max_deliver` and no backoff of the server's, and the
//! `ack_wait`, `max_ack_pending` and filter that were set here. Without it the consumer is only looked at. What the server has in
//! the end is checked, and not what was asked for.
//!
//! JetStream's own `max_deliver` must be -1: a message that comes to it is never delivered again, also when crashes and
//! shutdowns brought it there, and nobody is told but those who listen to an advisory. The engine counts instead.
//!
//! # Acks
//!
//! [`Confirmed`](crate::consume::AckOutcome::Confirmed) means that JetStream answered. An ack is not fenced: one of an earlier
//! delivery, of a consumer that was too slow, is as good as one of the last. Nothing is lost by it, since an ack follows a
//! COMMIT, and the claim decides who that was.
//!
//! # Attempts
//!
//! JetStream counts deliveries, and cannot be told that one does not count. So a delivery that was given back at a shutdown, and
//! each [`patience`](crate::consume::Consumer::patience) for which the store was away, leaves the message one attempt less; it
//! is a dead letter only if it then fails by itself. A message that never comes to an answer, because it ends the process each
//! time, is put aside after the [`delivery_limit`](crate::consume::Consumer::delivery_limit).
//!
//! A retry is a negative ack with a delay. Until it is over the message is *pending*: when as many wait as `max_ack_pending` has
//! places, the consumer gets nothing new.
//!
//! # Dead letters
//!
//! A dead letter is published with the sender's headers, with those of [`DeadLetter::headers`](crate::consume::DeadLetter::headers),
//! and with its subject in `idem-subject`, and is acked when a stream has stored it. A repeat of that write is dropped by
//! JetStream within the stream's duplicate window. The dead letter must fit into the server's `max_payload` with these headers
//! (up to 5 KiB more). [`redrive`](crate::consume::Consumer::redrive) publishes it to its old subject: on a stream with other
//! consumers it is a new message for them too.
//!
//! `Nats-Msg-Id` is a *window* and no identity: the same message sent later than the window (two minutes by default) is stored
//! again. Set it from the business key all the same: the client keeps what it could not send, and sends it after it told you
//! of a failure.
//!
//! # Order
//!
//! [`ordered_by`](crate::consume::Consumer::ordered_by) keeps the order in which one process takes the messages. For an order over
//! several processes, or one that a message which was given back does not lose: a consumer for each subject or group of
//! subjects, `max_ack_pending(1)`, `concurrency(1)` and `backlog(0)`. It delivers nothing more until the message before is
//! settled.
//!
//! # Time
//!
//! JetStream delivers a message again after `ack_wait`, unless it hears that it is still worked on, which the engine says every
//! third of it. Only as many messages are asked for as there is room. A stream's `max_age` and its limits with `discard = old`
//! remove messages that were never handled: see that they are far above what your longest outage needs.

mod message;
mod pull;
mod redrive;
mod settle;
mod source;

pub use pull::Reading;
pub use settle::Ticket;
pub use source::Source;

use crate::consume::{self, Json};
use async_nats::jetstream::Context;
use std::time::Duration;

/// A consumer of a JetStream stream; see [the module](self).
pub type Consumer<M, D = Json> = consume::Consumer<Source, M, D>;

impl<M> Consumer<M> {
    /// The durable pull consumer `durable` of `stream`.
    pub fn new(context: Context, stream: impl Into<String>, durable: impl Into<String>) -> Self {
        Self::of(Source::new(context, stream, durable))
    }
}

impl<M, D> Consumer<M, D> {
    /// The subject for messages that cannot be handled, which a stream must capture. Without one the consumer starts only
    /// with [`unlimited_attempts`](Self::unlimited_attempts), and messages with permanent errors come again and again.
    pub fn dead_letter(mut self, subject: impl Into<String>) -> Self {
        self.adapter_mut().dead_letter = Some(subject.into());
        self
    }

    /// Makes the durable consumer on the server, or changes it to what is set here.
    pub fn declare(mut self) -> Self {
        self.adapter_mut().declares = true;
        self
    }

    /// Which of the stream's subjects are consumed, wildcards included; all by default.
    pub fn filter_subject(mut self, subject: impl Into<String>) -> Self {
        self.adapter_mut().filter = Some(subject.into());
        self
    }

    /// After how long without an answer JetStream delivers a message again, for [`declare`](Self::declare); 30 seconds by
    /// default. A handler may take longer: JetStream hears that it is at work.
    pub fn ack_wait(mut self, wait: Duration) -> Self {
        self.adapter_mut().ack_wait = Some(wait);
        self
    }

    /// How many messages all processes of this consumer may hold, those that wait for a retry included, for
    /// [`declare`](Self::declare); 1000 by default. Fewer than the concurrency are refused at the start.
    pub fn max_ack_pending(mut self, messages: usize) -> Self {
        self.adapter_mut().max_ack_pending = Some(messages);
        self
    }

    /// After how many deliveries a message is put aside without its handler; 100 by default, not fewer than the
    /// [`max_attempts`](Self::max_attempts).
    ///
    /// It is for messages that end the process each time. All deliveries count, also those that a store that was away
    /// ended, one for each [`patience`](Self::patience): with too few of them a long outage makes dead letters.
    pub fn delivery_limit(mut self, deliveries: u32) -> Self {
        self.adapter_mut().delivery_limit = deliveries;
        self
    }
}
