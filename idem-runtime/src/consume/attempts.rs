//! Counting attempts where the broker does not.

use super::delivery::Envelope;
use crate::key::hex;
use sha2::{Digest as _, Sha256};
use std::{error::Error, pin::Pin, sync::Arc, time::SystemTime};

/// A future of an [`AttemptLog`].
pub type LogFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// What an [`AttemptLog`] knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Which attempt this one is, from 1.
    pub attempts: u32,
    /// When it was counted first.
    pub first_at: SystemTime,
}

impl Counted {
    /// For logs of your own.
    #[must_use]
    pub const fn new(attempts: u32, first_at: SystemTime) -> Self {
        Self { attempts, first_at }
    }
}

/// A durable count of attempts, for brokers that do not count deliveries exactly. It is written before the body, outside
/// the unit's transaction, so that attempts count that ended in a killed process. [`Store`](crate::Store) is one: see
/// [`Consumer::count_attempts_in`](super::Consumer::count_attempts_in).
///
/// Asked only when the broker calls a delivery a repeat, or cannot tell: the usual first delivery costs nothing.
pub trait AttemptLog: Send + Sync {
    /// Counts an attempt that is about to begin: one more than is known, and not less than `least`.
    ///
    /// # Errors
    /// The log's. The engine then waits as it does when the store is away.
    fn begin<'a>(&'a self, source: &'a str, message: &'a str, least: u32) -> LogFuture<'a, Counted>;

    /// Forgets a message that is settled.
    ///
    /// # Errors
    /// The log's. A warning is logged; the rest of the count is of no harm, and goes with the retention.
    fn end<'a>(&'a self, source: &'a str, message: &'a str) -> LogFuture<'a, ()>;
}

impl<L: AttemptLog + ?Sized> AttemptLog for Arc<L> {
    fn begin<'a>(&'a self, source: &'a str, message: &'a str, least: u32) -> LogFuture<'a, Counted> {
        L::begin(self, source, message, least)
    }

    fn end<'a>(&'a self, source: &'a str, message: &'a str) -> LogFuture<'a, ()> {
        L::end(self, source, message)
    }
}

/// What a message is counted by: what the broker keeps over redeliveries, or a digest of the payload. Two messages of one
/// payload share a count, which only matters while they fail.
pub(super) fn counted_by(envelope: &Envelope) -> String {
    match &envelope.stable_id {
        Some(id) if !id.is_empty() && id.len() <= 200 => id.clone(),
        Some(id) if !id.is_empty() => hex(&Sha256::digest(id)),
        _ => hex(&Sha256::digest(&envelope.payload)),
    }
}
