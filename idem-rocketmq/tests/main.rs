//! The adapter on its real server: the suite for every adapter, and what is its own.

#![recursion_limit = "512"]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes helpers of a test binary for library code"
)]

#[path = "../../tests/consume/conformance.rs"]
mod conformance;
mod harness;
mod node;
mod own;
mod wire;

use conformance::conformance;
use harness::Rocket;

conformance!(Rocket);
