use super::delivery::BrokerId;
use crate::error::utc;
use std::{fmt, time::SystemTime};

/// Longest error text in a dead letter's header, in bytes: headers travel in one frame.
const MAX_ERROR_BYTES: usize = 4096;

/// Why a message went to the dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It could not be decoded.
    Undecodable,
    /// It fails the same way each time, or a person has to look at it.
    Permanent,
    /// It failed too often.
    Exhausted,
    /// Its action is not called for, and the consumer is set to keep such messages.
    Ignored,
}

impl Reason {
    /// The word in headers and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::Permanent => "permanent",
            Self::Exhausted => "exhausted",
            Self::Ignored => "ignored",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What is written on a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Why.
    pub reason: Reason,
    /// The last error, for people.
    pub error: String,
    /// Scope and key of the action, when the handler got as far as claiming it.
    pub key: Option<String>,
    /// What it was consumed from.
    pub source: String,
    /// How the broker named the last delivery.
    pub broker_id: BrokerId,
    /// How many attempts there were, as far as is known.
    pub attempts: u32,
    /// When it came for the first time, as far as is known.
    pub first_at: SystemTime,
    /// When it came for the last time.
    pub last_at: SystemTime,
}

impl DeadLetter {
    /// The headers that a dead letter carries besides the sender's own: `idem-reason`, `idem-error`, `idem-source`,
    /// `idem-broker-id`, `idem-attempts`, `idem-first-at`, `idem-last-at` (UTC), and `idem-key` when it is known.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("idem-reason", self.reason.label().to_owned()),
            ("idem-error", cut(&self.error).to_owned()),
            ("idem-source", self.source.clone()),
            ("idem-broker-id", self.broker_id.to_string()),
            ("idem-attempts", self.attempts.to_string()),
            ("idem-first-at", utc(self.first_at)),
            ("idem-last-at", utc(self.last_at)),
        ];
        if let Some(key) = &self.key {
            headers.push(("idem-key", key.clone()));
        }
        headers
    }

    /// What all headers of this library begin with. Adapters leave them out of [`Headers`](super::Headers), and redriving
    /// takes them off.
    pub const PREFIX: &'static str = "idem-";
}

/// The beginning of a text that fits.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_ERROR_BYTES.min(text.len()))]
}
