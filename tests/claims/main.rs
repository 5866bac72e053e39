//! Every way to recognise a repeat, on every database: payloads, results that are kept, bodies that decline, one-time
//! tokens, guards.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes helpers of a test binary for library code"
)]

mod combined;
mod declining;
mod guards_change;
mod guards_insert;
mod guards_null;
mod guards_trouble;
mod lost_commit;
mod order;
mod payload;
mod replay;
mod replay_faults;
mod tokens;
