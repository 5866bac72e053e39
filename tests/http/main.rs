//! HTTP: keys of clients, annotated handlers behind routes, and the layer for plain handlers. Cases C29, C33, C38.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod client;
mod disconnect;
mod form;
mod handler;
mod identity;
mod keys;
mod layer;
mod lost;
mod settings;
mod stored;
mod units;
