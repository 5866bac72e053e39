//! The promises of idem, a file each, run on every database from one body.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod p01_claim_first;
mod p02_only_the_claims_conflict;
mod p03_nothing_left_behind;
mod p04_seal;
mod p05_cancellation;
mod p06_restarts;
mod p07_busy_is_not_a_duplicate;
mod p08_lost_commit_answer;
mod p09_one_connection;
mod p10_the_databases_clock;
mod p11_one_event_a_delivery;
