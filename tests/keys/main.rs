//! Keys: what they identify, for ever.
#![allow(missing_docs, reason = "tests")]

mod encoding;
mod refusals;
mod scopes;
