//! Keys: what they identify, for ever.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod encoding;
mod refusals;
mod scopes;
