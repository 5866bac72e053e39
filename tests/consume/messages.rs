//! The message of these tests.

use serde::Deserialize;

/// Money for an account.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Credit {
    pub(crate) no: String,
    #[serde(default = "one")]
    pub(crate) amount: i64,
    /// What the test wants of the body.
    #[serde(default)]
    pub(crate) fate: String,
}

fn one() -> i64 {
    1
}

/// A message that credits 1.
pub(crate) fn credit_of(no: &str) -> String {
    format!(r#"{{"no":"{no}"}}"#)
}

/// A message with a fate.
pub(crate) fn fated(no: &str, fate: &str) -> String {
    format!(r#"{{"no":"{no}","fate":"{fate}"}}"#)
}

/// A body's own error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("refused")]
    Refused,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}
