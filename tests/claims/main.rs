//! Every way to recognise a repeat, on every database: payloads, results that are kept, bodies that decline, one-time
//! tokens, guards.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy takes helpers of a test binary for library code")]

mod smoke;
