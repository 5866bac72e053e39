//! Redis Streams, through [`redis`](::redis).
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")] mod example {
//! use idem_runtime::{SqliteStore, idempotent, redis_streams};
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
//! let client = redis::Client::open("redis://localhost")?;
//! redis_streams::Consumer::new(client, "deduct", "workers")
//!     .dead_letter("deduct.dead")
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
//! # Entries
//!
//! The message is the field `payload` of an entry, or [another one](crate::consume::Consumer::payload_field). The other
//! fields are its headers. An entry without that field is an empty message.
//!
//! # What is declared
//!
//! [`declare`](crate::consume::Consumer::declare) makes the group, from the stream's first entry on, and an empty stream if there
//! is none. It does so too when Redis was started again without its data, and says so in a warning.
//!
//! Beside the stream stands a sorted set, `<stream>:idem-retry:<group>`: which entries wait, and until when. One Redis server
//! is spoken to, 6.2 or later; a Redis Cluster is refused.
//!
//! # Acks
//!
//! XACK takes an ack from anybody, also from a consumer that has lost the entry. So a script does it, which looks first whether
//! the entry is pending for this consumer and was not delivered again since.
//! [`Confirmed`](crate::consume::AckOutcome::Confirmed) means that it did, and
//! [`NotOwner`](crate::consume::AckOutcome::NotOwner) that the entry was somebody else's or nobody's.
//! All else that settles an entry looks in the same way.
//!
//! An acked entry stays in the stream, for other groups. [`delete_acked`](crate::consume::Consumer::delete_acked) deletes it.
//!
//! # Attempts
//!
//! The group counts deliveries, and the count is exact. What was given back, or waited for the store, does not count.
//! A lease that ran out does, whatever the reason: a message that never comes to an answer, because it ends the process each time,
//! is put aside after the [`delivery_limit`](crate::consume::Consumer::delivery_limit).
//!
//! # Retries
//!
//! Redis has no delay. An entry that is to come again stays pending, under the name `idem-waiting`, and the set says when it
//! is due; every consumer looks for what is. There is no copy of it: a copy in the stream would be a new message for the other
//! groups, have another id, and begin another count. The price is that the entry must not be trimmed meanwhile.
//!
//! # Dead letters
//!
//! A dead letter is an entry with the sender's fields and those of [`DeadLetter::headers`](crate::consume::DeadLetter::headers). One
//! script adds it and acks the other. [`redrive`](crate::consume::Consumer::redrive) moves those of this stream and group back, as
//! new entries, which the stream's other groups see too.
//!
//! # Dead consumers
//!
//! What a consumer held that is gone is taken over when nobody has worked on it for a
//! [`lease`](crate::consume::Consumer::lease). With a [`name`](crate::consume::Consumer::name) that stays the same it need not wait:
//! the next process by that name begins with it. A name that was made for one start is taken out of the group at its end, but not
//! by a crash.
//!
//! # Order
//!
//! Several consumers of a group have no order among them, and a retry lets others pass. For an order per key: streams by key, one
//! consumer with a `name` for each, and [`ordered_by`](crate::consume::Consumer::ordered_by).
//!
//! # What Redis may lose
//!
//! * XTRIM, MAXLEN and XDEL remove entries that were never handled. One that was pending is warned of; one that was not yet
//!   delivered is gone without a trace. Keep far more than your longest outage and backoff need.
//! * A server whose `maxmemory-policy` is not `noeviction` is refused. One without persistence is warned of. With
//!   `appendfsync everysec` a crash may lose a second, and a failover to a replica what had not come there: an ack (the message
//!   comes again, and is a duplicate) or a message.

mod entry;
mod reading;
mod redrive;
mod scripts;
mod settle;
mod source;

pub use reading::Reading;
pub use settle::Ticket;
pub use source::Source;

use crate::consume::{self, Json};
use redis::Client;
use std::time::Duration;

/// A consumer of a group of a stream; see [the module](self).
pub type Consumer<M, D = Json> = consume::Consumer<Source, M, D>;

impl<M> Consumer<M> {
    /// The group `group` of `stream`.
    pub fn new(client: Client, stream: impl Into<String>, group: impl Into<String>) -> Self {
        Self::of(Source::new(client, stream, group))
    }
}

impl<M, D> Consumer<M, D> {
    /// The stream for messages that cannot be handled. Without one the consumer starts only with
    /// [`unlimited_attempts`](Self::unlimited_attempts), and messages with permanent errors come again and again.
    pub fn dead_letter(mut self, stream: impl Into<String>) -> Self {
        self.adapter_mut().dead_letter = Some(stream.into());
        self
    }

    /// Makes the group, and the stream, where they are missing.
    pub fn declare(mut self) -> Self {
        self.adapter_mut().declares = true;
        self
    }

    /// This consumer's name in the group, which no other may have at the same time; one of this start's own by default.
    ///
    /// What an earlier process by the same name held comes at once.
    pub fn name(mut self, consumer: impl Into<String>) -> Self {
        self.adapter_mut().consumer = Some(consumer.into());
        self
    }

    /// After how long an entry that nobody works on is given to another consumer; 30 seconds by default, and not less than
    /// one. A handler may take longer: Redis hears that it is at work. The same for all consumers of the group.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.adapter_mut().lease = lease;
        self
    }

    /// The field that holds the message; `payload` by default.
    pub fn payload_field(mut self, field: impl Into<String>) -> Self {
        self.adapter_mut().body = field.into();
        self
    }

    /// Deletes entries when they are acked. For streams with one group: other groups would miss them.
    pub fn delete_acked(mut self) -> Self {
        self.adapter_mut().deletes = true;
        self
    }

    /// After how many deliveries a message is put aside without its handler; 100 by default, not fewer than the
    /// [`max_attempts`](Self::max_attempts).
    ///
    /// It is for messages that end the process each time. Leases that ran out while Redis was away count too.
    pub fn delivery_limit(mut self, deliveries: u32) -> Self {
        self.adapter_mut().delivery_limit = deliveries;
        self
    }
}
