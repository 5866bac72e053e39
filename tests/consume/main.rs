//! From the broker to the ack.
//!
//! `script` is a broker in memory that does what the test tells it, for the engine; `conformance` is one suite for the
//! adapters against their real servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes helpers of a test binary for library code"
)]

mod attempts;
mod conformance;
mod flow;
mod nats;
mod rabbitmq;
mod redis_streams;
mod script;
mod send;
mod settling;
