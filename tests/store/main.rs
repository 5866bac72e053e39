//! The store: making, checking and reaching the record table.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod memory;
mod migrate;
mod pool;
mod purge;
mod purge_background;
mod retention;
mod settings;
mod verify;
