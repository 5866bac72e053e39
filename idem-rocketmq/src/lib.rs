//! RocketMQ for idem, through [`rocketmq_client_rust`]: the consumer engine of
//! [`idem_runtime::consume`](idem_runtime::consume), and a [`Topic`] for it to take messages from.
//!
//! It is a crate of its own, outside the workspace, because the client brings some 280 crates.
//!
//! ```no_run
//! use idem_rocketmq::{Consumer, Topic};
//! use idem_runtime::{SqliteStore, idempotent};
//! use sqlx::SqliteConnection;
//!
//! #[derive(serde::Deserialize)]
//! struct OrderPaid {
//!     order_no: String,
//!     user_id: i64,
//!     points: i64,
//! }
//!
//! #[idempotent(key = msg.order_no, store = db, scope = "points.order_paid")]
//! async fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
//!     sqlx::query("UPDATE members SET points = points + ? WHERE user_id = ?")
//!         .bind(msg.points)
//!         .bind(msg.user_id)
//!         .execute(&mut *db)
//!         .await?;
//!     Ok(())
//! }
//!
//! # pub async fn consume(store: SqliteStore) -> Result<(), Box<dyn std::error::Error>> {
//! let topic = Topic::new("order-paid").group("points").name_server("localhost:9876").dead_letter("order-paid-dlq");
//! Consumer::of(topic)
//!     .covered_by(&store)
//!     .concurrency(16)
//!     .run(async |d| on_order_paid(&store, d.message()).await)
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a message can be known by
//!
//! `msgId` is another one each time the broker delivers a message again, and the client's `UNIQ_KEY` is another one
//! each time the application sends it again. So neither is given to a handler but as a
//! [`BrokerId`](idem_runtime::consume::BrokerId), which is no part of a key. `KEYS`, `TAGS` and the properties that the sender set
//! are the [headers](idem_runtime::consume::Delivery::headers).
//!
//! # Retries
//!
//! A message that is to come again goes back to the broker, which counts it and delivers it after the time that its own
//! table of delays (`messageDelayLevel`) has for that count: 10 seconds, 30 seconds, a minute, up to two hours. The
//! [backoff](idem_runtime::consume::Consumer::retry) says only how long the engine waits in place. What is given back at a
//! shutdown goes the same way, and counts.
//!
//! Deliveries that end in a killed process are not counted: use
//! [`count_attempts_in`](idem_runtime::consume::Consumer::count_attempts_in) where a message can kill the process.
//!
//! Dead letters are sent to a topic of yours and say why they are there. The broker's `%DLQ%` topic of the group stays
//! empty: the engine's limit is the only one.
//!
//! # Acks
//!
//! An ack moves the position of the group, which the client tells the broker every five seconds
//! (`persist_consumer_offset_interval`). So an ack is [`Sent`](idem_runtime::consume::AckOutcome::Sent) and never confirmed,
//! and after a crash several messages come again that were done: they are duplicates. It is
//! [`Lost`](idem_runtime::consume::AckOutcome::Lost) when the message was held for longer than
//! [`consume_timeout`](Topic::consume_timeout) and has been given back.
//!
//! # Order
//!
//! [`ordered_by`](idem_runtime::consume::Consumer::ordered_by) consumes in RocketMQ's orderly way: the messages of one of the
//! topic's queues one after the other. Send the messages of a key to one queue. A message that fails holds up its queue, so
//! also the other keys in it, and comes again to the same place.
//!
//! # Where it begins, and what it takes
//!
//! A group that is new begins with the oldest message that the brokers have kept. (By RocketMQ's own default it would
//! pass over what was sent before its first start.) Set its position with `mqadmin` where that is not wanted. There is
//! no broadcasting here: RocketMQ drops what fails there.
//!
//! Each message that is held takes a thread: the client's listeners block. The client has a runtime of its own, and
//! survives brokers and name servers that restart; it finds them again within `poll_name_server_interval` (30 seconds).
//! When [`run`](idem_runtime::consume::Consumer::run) is dropped all of it ends at once, as in a crash.
//!
//! # What is tested
//!
//! This crate is tested with the server of the same project as its client (rocketmq-rust 1.0.0), which speaks the
//! remoting protocol of Apache RocketMQ. The Java broker, clusters of several brokers and TLS are not tested.

// The client's futures are deep.
#![recursion_limit = "512"]

mod client;
mod message;
mod reading;
mod redrive;
mod settle;
mod topic;

pub use reading::Reading;
pub use settle::Ticket;
pub use topic::Topic;

use idem_runtime::consume::{self, Json};

/// A consumer of a RocketMQ topic; see [the crate](self).
pub type Consumer<M, D = Json> = consume::Consumer<Topic, M, D>;
