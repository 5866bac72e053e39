//! What can go wrong in the story.

use super::notification::MerchantNo;
use crate::money::BadAmount;
use std::{io, path::PathBuf};

/// Why a body does not count as a notification.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadNotification {
    /// Neither of the two formats.
    #[error("only .form (Alipay) and .json (WeChat Pay) files are notifications")]
    UnknownFormat,
    /// Not form-encoded, or a required field is missing or there twice.
    #[error("not an Alipay notification: {0}")]
    Form(#[from] serde_urlencoded::de::Error),
    /// Not JSON, or a required field is missing or of another type.
    #[error("not a WeChat Pay notification: {0}")]
    Json(#[from] serde_json::Error),
    /// The resource was not decrypted.
    #[error("`resource` is still encrypted: decrypt its ciphertext with the APIv3 key first")]
    Encrypted,
    /// A field that this kind of notification must have.
    #[error("a notification with `{because_of}` must have `{missing}`")]
    Missing {
        /// The field that is not there.
        missing: &'static str,
        /// The field that makes it necessary.
        because_of: &'static str,
    },
    /// An amount that is none.
    #[error("`{field}` is {text:?}: {source}")]
    Amount {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
        /// What is wrong with it.
        source: BadAmount,
    },
    /// A field whose value makes no sense.
    #[error("`{field}` is {text:?}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
        /// What it should have been.
        expected: &'static str,
    },
}

/// Why a handler's body fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayError {
    /// The act's made-up failure.
    #[error("the stock service did not answer (made up, in the middle of the body)")]
    MadeUp,
    /// The ledger cannot hold the sum.
    #[error("the amounts of order {0} are out of range")]
    OutOfRange(MerchantNo),
    /// The database refused a statement.
    #[error("the ledger refused a statement: {0}")]
    Database(#[from] sqlx::Error),
}

/// Why the story cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoryError {
    /// A file or folder.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is no notification.
    #[error("{}: {source}", path.display())]
    Notification {
        /// Which.
        path: PathBuf,
        /// Why.
        source: BadNotification,
    },
    /// An act without anything to deliver.
    #[error("{}: an act needs at least one notification", .0.display())]
    Empty(PathBuf),
    /// The files say two different things about one fact.
    #[error("{}: another file names another merchant or amount for order {order}", path.display())]
    Contradiction {
        /// The second file.
        path: PathBuf,
        /// The order.
        order: MerchantNo,
    },
    /// The sums are too large.
    #[error("the amounts in the data are out of range")]
    OutOfRange,
    /// A temporary folder, the terminal, a child process.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The ledger's database.
    #[error("the ledger: {0}")]
    Ledger(#[from] sqlx::Error),
    /// The store.
    #[error("the store: {0}")]
    Store(#[from] idem_runtime::ConfigurationError),
    /// A child process that does not keep to the act.
    #[error("a worker process {0}")]
    Worker(String),
    /// A task that panicked.
    #[error("a delivery panicked: {0}")]
    Task(#[from] tokio::task::JoinError),
}
