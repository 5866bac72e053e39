use super::{Claim, attempt::Backoff};
use crate::{
    error::{ClaimError, Error},
    guard::{Guard, Guarded},
    key::{IntoKey, Key, KeyError},
    outcome::Outcome,
    store::{Connection, Store},
};
use std::time::Duration;

/// The repetition that `retry = n` asks for: the whole unit, claim and body, up to `n` times more.
///
/// A unit is run again after [`Error::Body`] and after a commit that failed for a reason that is retryable, with a pause
/// that grows from about 10 milliseconds to about a second. What a repeat cannot cure is returned at once, and so is
/// an error of the claim, which starts again by itself where that helps.
///
/// # Cancel safety
/// Futures of this type's methods may be dropped at any await; see [`Unit`](crate::Unit).
#[derive(Debug)]
pub struct Retry {
    key: Result<Key, KeyError>,
    left: u32,
    backoff: Backoff,
}

impl Retry {
    /// Allows `times` repetitions of the unit of `key`.
    pub fn new(key: impl IntoKey, times: u32) -> Self {
        Self {
            key: key.into_key(),
            left: times,
            backoff: Backoff::new(Duration::from_millis(10), Duration::from_secs(1)),
        }
    }

    /// Claims for the next attempt.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub async fn claim<C: Connection>(&self, store: &Store<C>) -> Result<Claim<C>, ClaimError> {
        store.claim_attempt(self.key.clone()?, self.left).await
    }

    /// Claims for the next attempt with a guard, as [`Store::claim_guarded`].
    ///
    /// # Errors
    /// As [`Store::claim_guarded`].
    pub async fn claim_guarded<C: Connection>(
        &self,
        store: &Store<C>,
        guard: Guard<C>,
    ) -> Result<Guarded<C>, ClaimError> {
        store.claim_with_guard(self.key.clone()?, guard, self.left).await
    }

    /// Whether the unit is to be run again after it ended like this; waits for the pause if so.
    pub async fn again<T, R, E>(&mut self, ended: &Result<Outcome<T, R>, Error<E>>) -> bool {
        let curable = ended.as_ref().is_err_and(is_curable);
        if !curable || self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.backoff.pause().await;
        true
    }
}

/// Whether running the unit again may cure an error.
pub(super) fn is_curable<E>(error: &Error<E>) -> bool {
    match error {
        Error::Body(_) => true,
        Error::Database(error) => error.is_retryable(),
        _ => false,
    }
}
