//! Why a story cannot be told.

use std::{io, path::PathBuf};

/// Why a story cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoryError {
    /// A file or folder of the data.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of the data that is no message.
    #[error("{}, line {line}: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file that is no form.
    #[error("{}: {source}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_urlencoded::de::Error,
    },
    /// Data that is well-formed and makes no sense.
    #[error("{}: {says}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        says: String,
    },
    /// A temporary folder, the terminal.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The story's own tables.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// The store.
    #[error("the store: {0}")]
    Store(#[from] idem_runtime::ConfigurationError),
    /// Unfinished work that could not be listed or settled.
    #[error("the leases: {0}")]
    Leases(#[from] idem_runtime::ClaimError),
    /// A token that could not be issued.
    #[error("no token: {0}")]
    Token(#[from] idem_runtime::IssueError),
    /// A request that nothing can be made of.
    #[error("a request: {0}")]
    Request(&'static str),
    /// There is no broker.
    #[cfg(feature = "brokers")]
    #[error(
        "no RabbitMQ answers at {address} ({source}): start one (`docker compose up -d rabbitmq`, or `scripts/services up`), or \
         name yours in IDEM_TEST_RABBITMQ=host:port"
    )]
    NoBroker {
        /// Where it was looked for.
        address: String,
        /// Why not. It is large.
        source: Box<lapin::Error>,
    },
    /// The broker's client.
    #[cfg(feature = "brokers")]
    #[error("RabbitMQ: {0}")]
    Broker(#[from] lapin::Error),
    /// A consumer that did not start, or lost its broker.
    #[cfg(feature = "brokers")]
    #[error("the consumer: {0}")]
    Consumer(#[from] idem_runtime::consume::RunError),
    /// A task that panicked.
    #[error("a delivery panicked: {0}")]
    Task(#[from] tokio::task::JoinError),
}
