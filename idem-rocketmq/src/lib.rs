//! placeholder
#![recursion_limit = "512"]

mod client;
mod message;
mod reading;
mod redrive;
mod settle;
mod topic;

pub use reading::Reading;
pub use settle::Ticket;
pub use topic::Topic;

/// c
pub type Consumer<M, D = idem_runtime::consume::Json> = idem_runtime::consume::Consumer<Topic, M, D>;
