//! Leases: work outside the database, at least once; each test on every SQL database and on Redis from one body. Case C33.
//!
//! The work that a body does is counted in the place itself, over connections that have nothing to do with the leases. A
//! lease "runs out" by being moved into the past there, where a test need not wait for it.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod place;

mod cancellation;
mod fencing;
mod forgetting;
mod heartbeat;
mod life;
mod lost_answers;
mod pools;
mod reconcile;
