//! Keeping a body's result in the unit, and giving it back to a repeat.

use crate::outcome::Seen;
use std::fmt;

/// How a result is written down, in front of it: a change of format must be seen before anything is read.
const FORMAT: &str = "json1";
/// Largest result kept by default, in bytes of JSON.
const DEFAULT_LIMIT: usize = 64 * 1024;
/// The largest limit: a record is a row, and every repeat reads it. It goes to MySQL and MariaDB as hexadecimal text, in a
/// packet of 16 MiB as they are installed.
const MAX_LIMIT: usize = 4 * 1024 * 1024;

/// A value that can be kept in a record and given back to a repeat: `Serialize` and `DeserializeOwned` of serde.
///
/// It comes back as JSON tells it. JSON has one `null`, so `Some(())`, `Some(None)` and `Some(f64::NAN)` come back as
/// `None`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for `replay`",
    label = "the result of the first time is stored as JSON, and read for a repeat",
    note = "derive serde's `Serialize` and `Deserialize` for it, and enable the feature `replay` of idem-runtime"
)]
pub trait Replayable: Sized {
    #[doc(hidden)]
    fn to_json(&self) -> Result<Vec<u8>, String>;
    #[doc(hidden)]
    fn from_json(json: &[u8]) -> Result<Self, String>;
}

#[cfg(feature = "replay")]
#[diagnostic::do_not_recommend]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Replayable for T {
    fn to_json(&self) -> Result<Vec<u8>, String> {
        serde_json::to_vec(self).map_err(|error| error.to_string())
    }

    fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }
}

/// The first time's result, as a repeat gets it. The body did not run again, whatever became of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replay<T> {
    /// The result.
    Value(T),
    /// It was not kept, or cannot be read any more.
    Unavailable(Unavailable),
}

impl<T> Replay<T> {
    /// The result, if it is there.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }
}

/// Why a repeat has no result. That the action is done is true all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The first time was done by a handler that kept no result.
    #[error("the action is done, and its handler kept no result then")]
    NotKept,
    /// The result was larger than the limit.
    #[error("the action is done, and its result of {bytes} bytes was over the limit and not kept")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The result could not be written as JSON.
    #[error("the action is done, and its result could not be written as JSON: {error}")]
    NotWritten {
        /// What serde said.
        error: String,
    },
    /// Another version of the handler wrote it: `replay(version = ..)` was raised since.
    #[error("the action is done, and its result is of version {stored}; this handler reads version {wanted}")]
    OtherVersion {
        /// The version of the record.
        stored: u32,
        /// The version of this handler.
        wanted: u32,
    },
    /// The stored result cannot be read: the type has changed, or the bytes are damaged.
    #[error("the action is done, and its stored result cannot be read: {error}")]
    Unreadable {
        /// What is wrong with it.
        error: String,
    },
}

/// How a handler keeps its result: what `replay` or `replay(version = 2, limit = 4096, redact = hide_card)` says.
#[derive(Clone, Copy)]
#[must_use = "it does nothing until a unit is committed with it"]
pub struct Keep<T> {
    version: u32,
    limit: usize,
    redact: Option<fn(&mut T)>,
}

impl<T> fmt::Debug for Keep<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep").field("version", &self.version).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<T> Default for Keep<T> {
    fn default() -> Self {
        Self { version: 1, limit: DEFAULT_LIMIT, redact: None }
    }
}

impl<T: Replayable> Keep<T> {
    /// Version 1, up to 64 KiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// The version of the result's type. Raise it when old results must not be read as new ones, although they could
    /// be. A field that was added with `#[serde(default)]` needs no new version.
    pub const fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// The largest result that is kept, in bytes of JSON, at most 4 MiB. A larger one is not kept, with a warning in the
    /// log; the unit is committed all the same, and repeats get [`Unavailable::TooLarge`].
    pub const fn limit(mut self, bytes: usize) -> Self {
        self.limit = if bytes > MAX_LIMIT { MAX_LIMIT } else { bytes };
        self
    }

    /// Changes a copy of the result before it is stored: what must not stand in a database is taken out here. Repeats
    /// get what is left.
    pub const fn redact(mut self, redact: fn(&mut T)) -> Self {
        self.redact = Some(redact);
        self
    }

    /// What is stored for this result. Always something, so that a result of nothing is not taken for no result.
    pub(crate) fn write(&self, value: &T) -> Vec<u8> {
        let json = value.to_json().and_then(|json| match self.redact {
            None => Ok(json),
            Some(redact) => {
                // What serde says of a value it cannot read may quote it.
                let unread = |_| "it cannot be read back from its own JSON, so nothing can be redacted".to_owned();
                let mut copy = T::from_json(&json).map_err(unread)?;
                redact(&mut copy);
                copy.to_json()
            }
        });
        match json {
            Ok(json) if json.len() <= self.limit => {
                let mut stored = format!("{FORMAT} {} ok\n", self.version).into_bytes();
                stored.extend_from_slice(&json);
                stored
            }
            Ok(json) => format!("{FORMAT} {} large\n{}", self.version, json.len()).into_bytes(),
            Err(error) => {
                let error: String = error.chars().take(500).collect();
                format!("{FORMAT} {} failed\n{error}", self.version).into_bytes()
            }
        }
    }

    /// Why what [`write`](Self::write) gave holds no result.
    pub(crate) fn why_not_kept(&self, stored: &[u8]) -> Option<Unavailable> {
        // Whether a kept result can be read is not asked here.
        if stored.starts_with(format!("{FORMAT} {} ok", self.version).as_bytes()) {
            return None;
        }
        self.try_read(Some(stored)).err()
    }

    /// Reads what was stored, if anything.
    pub(crate) fn read(&self, stored: Option<&[u8]>) -> Replay<T> {
        match self.try_read(stored) {
            Ok(value) => Replay::Value(value),
            Err(unavailable) => Replay::Unavailable(unavailable),
        }
    }

    fn try_read(&self, stored: Option<&[u8]>) -> Result<T, Unavailable> {
        let stored = stored.ok_or(Unavailable::NotKept)?;
        let unreadable = |error: &str| Unavailable::Unreadable { error: error.to_owned() };
        let end = stored.iter().position(|byte| *byte == b'\n').ok_or_else(|| unreadable("it has no header"))?;
        let header = std::str::from_utf8(&stored[..end]).map_err(|_| unreadable("its header is no text"))?;
        let body = &stored[end + 1..];
        let mut words = header.split(' ');
        let (Some(FORMAT), Some(version), Some(state), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(unreadable("it is in a format that this version of idem does not know"));
        };
        let version: u32 = version.parse().map_err(|_| unreadable("its header is damaged"))?;
        let text = || String::from_utf8_lossy(body).into_owned();
        match state {
            "large" => return Err(Unavailable::TooLarge { bytes: text().parse().unwrap_or(0) }),
            "failed" => return Err(Unavailable::NotWritten { error: text() }),
            "ok" => {}
            _ => return Err(unreadable("its header is damaged")),
        }
        if version != self.version {
            return Err(Unavailable::OtherVersion { stored: version, wanted: self.version });
        }
        T::from_json(body).map_err(|error| Unavailable::Unreadable { error })
    }
}

impl Seen {
    /// The repeat together with the first time's result, read as the handler keeps it.
    #[must_use]
    pub fn replay<T: Replayable>(self, keep: &Keep<T>) -> Seen<Replay<T>> {
        let result = keep.read(self.stored.as_deref());
        let Self { first_at, delivery_id, late, stored, .. } = self;
        Seen { first_at, delivery_id, late, result, stored }
    }
}
