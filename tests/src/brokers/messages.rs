//! The message of these tests.

use serde::Deserialize;

/// Money for an account.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Credit {
    /// What names the action.
    pub no: String,
    #[serde(default = "one")]
    /// How much; 1 when it is not said.
    pub amount: i64,
    /// What the test wants of the body.
    #[serde(default)]
    pub fate: String,
}

fn one() -> i64 {
    1
}

/// A message that credits 1.
pub fn credit_of(no: &str) -> String {
    format!(r#"{{"no":"{no}"}}"#)
}

/// A message with a fate.
pub fn fated(no: &str, fate: &str) -> String {
    format!(r#"{{"no":"{no}","fate":"{fate}"}}"#)
}

/// A body's own error.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("refused")]
    /// The body refuses.
    Refused,
    #[error(transparent)]
    /// The database's.
    Database(#[from] sqlx::Error),
}
