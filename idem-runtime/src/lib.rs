//! Exactly-once effects in your own database.
//!
//! See the README for the tour.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(any(feature = "sqlite", feature = "sqlite-unbundled", feature = "postgres", feature = "mysql")))]
compile_error!(
    "idem-runtime needs a database: enable at least one of its features `postgres`, `mysql` (MySQL and MariaDB), \
     `sqlite` (builds its own SQLite) or `sqlite-unbundled` (links the system's), \
     for example `idem-runtime = { version = \"0.1\", features = [\"postgres\"] }`"
);

mod error;
pub mod expansion;
mod key;
mod log;
mod outcome;
mod retention;
mod store;
mod unit;

pub use error::{
    Advice, Busy, ClaimError, CommitUnknown, ConfigurationError, DatabaseError, Ending, Error, Phase, TransactionEnded,
};
pub use idem_macros::{KeyPart, idempotent};
pub use key::{
    AcceptedBy, AllowsBrokerId, AllowsFloat, AllowsNull, AllowsRandom, AllowsTime, BrokerAssigned, Float, IntoKey, Key,
    KeyBuilder, KeyError, KeyPart, KeyWriter, MayBeNull, Moment, Optional, Random, Stable, Unnamed,
};
pub use outcome::{BodyResult, Handled, Ignored, Outcome, Seen};
pub use retention::Retention;
pub use store::{Connection, Isolation, Store, StoreBuilder};
pub use unit::{Claim, Retry, Unit};

#[cfg(feature = "mysql")]
pub use store::MySqlStore;
#[cfg(feature = "postgres")]
pub use store::PgStore;
#[cfg(feature = "_sqlite")]
pub use store::SqliteStore;
