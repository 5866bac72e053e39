//! From the broker to the ack: one engine, and an adapter for each broker.
//!
//! A [`Consumer`] takes messages, decodes them, calls the annotated handler, and settles each by what the handler
//! returned, after it returned: the ack always follows the COMMIT.
//!
//! | the handler returned | the message | counts as an attempt |
//! | --- | --- | --- |
//! | [`First`](crate::Outcome::First), [`Duplicate`](crate::Outcome::Duplicate) | is acked | |
//! | [`Ignored`](crate::Outcome::Ignored), by a guard or by `Decision::drop` | by [`WhenIgnored`]: acked, or retried, or a dead letter | if retried |
//! | [`Ignored`](crate::Outcome::Ignored), by `Decision::retry` | is retried | yes |
//! | [`Error::Body`](crate::Error::Body), [`Error::LeaseLost`](crate::Error::LeaseLost), a guard's or a commit's error, a panic | is retried, with backoff | yes |
//! | busy, the database away, the store set up wrong, the answer to COMMIT lost | waits in place with backoff, and is then retried | no |
//! | a body's error whose connection turns out to be lost | the same | from the second time on |
//! | a permanent error: a key error, another payload, a body that lost its transaction | is a dead letter | |
//! | (it could not be decoded) | is a dead letter | |
//! | anything that counts, for the last time ([`Consumer::max_attempts`]) | is a dead letter | |
//!
//! * A dead letter is acked only after the broker has it in its place; when that fails the message is retried.
//! * What is the store's trouble and not the message's never makes it a dead letter. It is waited out *in place*, up to
//!   [`Consumer::patience`]: the places fill up, and the consumer takes nothing more until the store is back. On a broker
//!   with an exact counter of its own each further patience costs one delivery.
//! * A body's error may be the store's trouble too: its connection broke. That is forgiven once a delivery, since a message
//!   can also be what breaks the connection (one that is too large for the server).
//! * A panic is caught (not with `panic = "abort"`), and the consumer goes on.
//! * An ack that is lost is no failure: the message comes again, and is a duplicate.
//!
//! # What each broker can do
//!
//! | | native delay | native dead letters | fenced ack | order per key | exact attempts |
//! | --- | --- | --- | --- | --- | --- |
//! | RabbitMQ, quorum queue | no: a queue for each delay | yes | yes, per channel | one active consumer | yes |
//! | RabbitMQ, classic queue | no: a queue for each delay | yes | yes, per channel | one active consumer | no: a flag |
//! | NATS JetStream | yes | no: a subject that a stream captures | no | one message pending | yes |
//! | Redis Streams | no: a set of due times | no: a second stream | yes, by a script | one consumer of a stream | yes |
//!
//! # Writing an adapter
//!
//! An adapter turns one broker's client into four things; the engine does all the rest.
//!
//! 1. [`Adapter`]: a value that names what to consume. [`start`](Adapter::start) gets the [`Plan`], looks at the live
//!    configuration, refuses what is unsafe with [`StartError::Unsafe`] (the reason, and what to do), and subscribes.
//!    `Consumer::of(adapter)` makes a consumer of it. In this crate a module also has `pub type Consumer<M, D = Json> =
//!    consume::Consumer<Queue, M, D>` with an inherent `new(..)`, and settings of its own through
//!    [`Consumer::adapter_mut`].
//! 2. [`Subscription`]: [`next`](Subscription::next) gives one [`Taken`] at a time and must be cancel-safe, though the
//!    engine drops its future only at the shutdown. Do not read ahead more than [`Plan::in_flight`] messages: taking no
//!    more is the back-pressure. A client that must go on talking while nothing is taken does so in
//!    [`hold`](Subscription::hold), or in a task of its own. [`holding`](Subscription::holding) says how long a delivery can
//!    be held, [`horizon`](Subscription::horizon) how late one can still come.
//! 3. [`Envelope`]: payload, business headers, [`BrokerId`], [`Attempt`]. What the broker and this library add to the
//!    headers is left out. Copies that the adapter published carry [`ATTEMPTS`] and [`SINCE`]; the count of the envelope is the
//!    header's plus the broker's own plus one.
//! 4. [`Settle`]: ack, retry, dead letter, give back. Their outcomes are honest: [`AckOutcome::Confirmed`] only when the
//!    broker answered, [`AckOutcome::Lost`] when the connection is gone. What publishes a copy (a delayed retry, a dead
//!    letter) publishes, waits for the broker's confirmation *that it is stored and routed*, and acks only then: two
//!    messages are a duplicate, none is a loss. The engine bounds each call by [`Consumer::settle_timeout`].
//!
//! Its ids are [`BrokerId`] and nothing else: no type of the client's that could become a part of a key is handed out.
//! Run the conformance suite of the repository (`tests/consume/conformance.rs`) on it, against its real server.

mod adapter;
mod attempts;
mod consumer;
mod current;
mod dead_letter;
mod decode;
mod delivery;
mod engine;
mod lanes;
mod log;
mod settings;
mod slot;

pub use adapter::{
    ATTEMPTS, AckOutcome, Adapter, BrokerError, Capabilities, Holding, Horizon, Plan, Redelivery, Redrive, SINCE,
    Settle, StartError, Subscription, Taken, attempts_in, since_in,
};
pub use attempts::{AttemptLog, Counted, LogFuture};
pub use consumer::Consumer;
pub(crate) use current::{note_claim, note_connection_lost};
pub use dead_letter::{DeadLetter, Reason};
pub use decode::{Decode, Json};
pub use delivery::{Attempt, BrokerId, Delivery, Envelope, Headers};
pub use engine::{RunError, Summary};
pub use settings::{Backoff, WhenIgnored};
