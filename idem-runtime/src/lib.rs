//! Exactly-once effects in your own database, for message consumers and API handlers.
//!
//! Brokers deliver at least once: the same business action arrives again. This crate recognises the repeat and makes it
//! void. It inserts a unique key for the business *action* as the first statement of the transaction of the business
//! write; a conflict means that the action is done; a failure rolls both back, so that a redelivery can run.
//!
//! ```
//! # #[cfg(feature = "sqlite")] mod example {
//! use idem_runtime::{Outcome, SqliteStore, idempotent};
//! use sqlx::SqliteConnection;
//!
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
//! # #[tokio::main(flavor = "current_thread")]
//! # pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = SqliteStore::connect("sqlite::memory:").await?;
//! store.migrate().await?;
//! # sqlx::query("CREATE TABLE stock (sku TEXT PRIMARY KEY, count INTEGER)").execute(store.pool()).await?;
//! # sqlx::query("INSERT INTO stock VALUES ('cup', 10)").execute(store.pool()).await?;
//!
//! let msg = Deduct { order_no: "A1001".into(), sku: "cup".into(), quantity: 3 };
//! assert_eq!(on_deduct(&store, &msg).await?, Outcome::First(()));
//! assert!(on_deduct(&store, &msg).await?.is_duplicate());
//! # let left: i64 = sqlx::query_scalar("SELECT count FROM stock").fetch_one(store.pool()).await?;
//! # assert_eq!(left, 7);
//! # Ok(())
//! # }
//! # }
//! # #[cfg(feature = "sqlite")] fn main() -> Result<(), Box<dyn std::error::Error>> { example::main() }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! # The words
//!
//! | word | meaning | here |
//! | --- | --- | --- |
//! | delivery | one arrival of a message or request | a call of the annotated function |
//! | delivery id | what the broker assigned; for logs only | [`KeyBuilder::delivery`] |
//! | action | the business fact: a scope and a key | [`Key`] |
//! | claim | the first statement of the unit's transaction; decides first or repeat | [`Store::claim`], [`Claim`] |
//! | body | your code, on the claim's own transaction | |
//! | seal | the proof, just before COMMIT, that the transaction which claimed is the one being committed | [`Unit::commit`] |
//! | unit | claim, body, seal, commit: all or nothing | [`Unit`], [`Store::once`] |
//! | outcome | first, duplicate, ignored | [`Outcome`] |
//! | store | a database plus settings: the authority | [`Store`] |
//! | gate | a fast memory of finished actions in front of a store; may only save work | [`gate`] |
//!
//! # Where to look
//!
//! * Writing a handler: [`macro@idempotent`]. What a key accepts: [`trait@KeyPart`].
//! * What to tell the broker: [`Error::advice`].
//! * Setting up: [`Store::connect`], [`StoreBuilder`], [`Store::migrate`], [`Retention`], [`Floor`].
//! * Records whose time is over: [`Store::purge`], [`Store::start_purger`].
//! * Without the attribute: [`Store::once`].
//!
//! # Features
//!
//! One for each database, none by default: `postgres`, `mysql` (MySQL and MariaDB), `sqlite` (builds its own SQLite) or
//! `sqlite-unbundled` (links the system's). TLS and the flavour of the async runtime stay the application's choice, as
//! features of its own `sqlx` dependency. The library is written for tokio; on another runtime of sqlx's, pauses
//! between restarts are left out, and so are its own bounds on waiting (for SQLite's writer, for an answer).
//!
//! `chrono`, `time`, `jiff`, `uuid`, `ulid` teach the compiler about these crates' types in keys: dates are accepted,
//! instants and random ids are refused by name and reason. Without the feature such a type is refused as unknown.
//!
//! `guard` lets the compiler read the SQL of `guard = ".."` (it brings a SQL parser to the macros, and nothing to the
//! program); `replay` keeps results, with serde and serde_json. `redis` also brings leases in Redis.
//!
//! `gate-memory` and `redis` (with `redis-cluster`, `redis-sentinel`) bring the gates of the module [`gate`].
//! `http` brings the `Idempotency-Key` header for axum (the module `http`): an extractor, answers as outcomes ask for
//! them, and a tower layer for plain handlers.
//!
//! # Logs
//!
//! One event a delivery through `tracing`, target `idem`: `delivery.id`, `idem.scope`, `idem.key`, `idem.outcome`
//! (`first`, `duplicate`, `ignored`, `busy`, `failed`). What is normal operation is at `info`. The feature `metrics`
//! counts the same events as `idem_deliveries_total`, by `scope` and `outcome`, through the `metrics` facade.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(any(feature = "sqlite", feature = "sqlite-unbundled", feature = "postgres", feature = "mysql")))]
compile_error!(
    "idem-runtime needs a database: enable at least one of its features `postgres`, `mysql` (MySQL and MariaDB), \
     `sqlite` (builds its own SQLite) or `sqlite-unbundled` (links the system's), \
     for example `idem-runtime = { version = \"0.1\", features = [\"postgres\"] }`"
);

#[cfg(feature = "consume")]
pub mod consume;
mod error;
pub mod expansion;
mod floor;
pub mod gate;
mod guard;
#[cfg(feature = "http")]
pub mod http;
mod key;
mod lease;
mod log;
#[cfg(feature = "nats")]
pub mod nats;
mod outcome;
mod purge;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis-streams")]
pub mod redis_streams;
mod replay;
mod retention;
mod store;
mod token;
mod unit;

pub use error::{
    Advice, Busy, ClaimError, CommitUnknown, CompletionUnknown, ConfigurationError, DatabaseError, Ending, Error,
    GuardError, LeaseLost, PayloadMismatch, Phase, RedisError, TokenError, TransactionEnded,
};
pub use floor::{Floor, FloorError};
pub use guard::{Bind, Guard, Guarded};
pub use idem_macros::{KeyPart, idempotent};
pub use key::{
    AcceptedBy, AllowsBrokerId, AllowsFloat, AllowsNull, AllowsRandom, AllowsTime, BrokerAssigned, Float, IntoKey, Key,
    KeyBuilder, KeyError, KeyPart, KeyWriter, MayBeNull, Moment, Optional, Payload, Random, Stable, Unnamed,
};
#[cfg(feature = "redis")]
pub use lease::RedisLeases;
pub use lease::{AtLeastOnceLease, Begun, HeldLease, Leases, Resolution, Unfinished, UnfinishedWork};
pub use outcome::{
    BodyResult, Decided, DecidingResult, Decision, Decline, Handled, Ignored, Outcome, Replayed, Seen, Then, Why,
};
pub use purge::{Archived, Every, Progress, Purge, PurgeError, Purged, Purger};
pub use replay::{Keep, Replay, Replayable, Unavailable};
pub use retention::Retention;
pub use store::{Connection, Isolation, Store, StoreBuilder};
pub use token::{IssueError, Token, Tokens};
pub use unit::{Claim, Retry, Unit};

#[cfg(feature = "mysql")]
pub use store::MySqlStore;
#[cfg(feature = "postgres")]
pub use store::PgStore;
#[cfg(feature = "_sqlite")]
pub use store::SqliteStore;
