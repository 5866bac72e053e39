#![allow(clippy::unwrap_used, missing_docs)]
mod conformance;
mod kafka;
