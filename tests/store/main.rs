//! The store: making, checking and reaching the record table.
#![allow(missing_docs, reason = "tests")]

mod memory;
mod migrate;
mod pool;
mod settings;
mod verify;
