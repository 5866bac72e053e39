//! The promises of idem, a file each, run on every database from one body.
#![allow(missing_docs, clippy::missing_errors_doc, reason = "tests")]

mod p01_claim_first;
mod p05_cancellation;
mod p08_lost_commit_answer;
mod p10_the_databases_clock;
mod p11_one_event_a_delivery;
