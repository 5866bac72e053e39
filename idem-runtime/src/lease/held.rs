use super::heartbeat::{Heart, Standing};
use crate::{
    error::{ClaimError, CompletionUnknown, Error, LeaseLost},
    key::Key,
    log,
    outcome::{Decline, Ignored, Outcome},
    replay::{Keep, Replay, Replayable},
    unit::{Backoff, within},
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Work that this delivery has begun, until it is completed or given back. Its lease is renewed in the background as long
/// as this lives.
///
/// # Cancel safety
/// Dropping it, also in the middle of the work, leaves the lease as it is: nobody knows whether the work happened. Once the
/// lease has run out, the next delivery runs it again. A completion that was on its way is written or not.
#[must_use = "work that is neither completed nor given back runs again when its lease has run out"]
pub struct HeldLease {
    heart: Arc<Heart>,
    lease: AtLeastOnceLease,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Working,
    /// Its completion may be on its way.
    Completing,
    /// It may be given back; the work itself has come to an end.
    Ended,
}

impl HeldLease {
    pub(super) fn new(heart: Arc<Heart>) -> Self {
        let owned = &heart.owned;
        let lease = AtLeastOnceLease {
            about: Arc::new(About {
                key: owned.key.clone(),
                fence: u64::try_from(owned.fence).unwrap_or(0),
                attempts: u64::try_from(owned.attempts).unwrap_or(0),
            }),
            standing: heart.standing.subscribe(),
        };
        Self { heart, lease, stage: Stage::Working }
    }

    /// What the body learns of its lease.
    #[must_use]
    pub fn lease(&self) -> &AtLeastOnceLease {
        &self.lease
    }

    /// Says that the work is done, and gives [`Outcome::First`] with the body's value.
    ///
    /// A completion after the lease has run out is accepted as long as nobody has taken over. An answer that was lost is
    /// asked for again, for as long as the store's lock wait and answer timeout together.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when somebody else has taken over; [`Error::CompletionUnknown`] when it could not be written
    /// down in time. The work was done in both cases, and may be done again.
    pub async fn complete<T, E>(self, value: T) -> Result<Outcome<T>, Error<E>> {
        self.write_completion(None).await?;
        Ok(Outcome::First(value))
    }

    /// As [`complete`](Self::complete), and keeps the body's value for repeats: what `replay` does. A value that is too
    /// large or cannot be written as JSON is not kept, with a warning in the log; the work is completed all the same.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn complete_and_keep<T: Replayable, E>(
        self,
        value: T,
        keep: &Keep<T>,
    ) -> Result<Outcome<T, Replay<T>>, Error<E>> {
        let stored = keep.write(&value);
        log::result_not_kept(self.lease.key(), keep, &stored);
        self.write_completion(Some(&stored)).await?;
        Ok(Outcome::First(value))
    }

    /// Gives the work back because the body failed, and gives [`Error::Body`] with its error. The next delivery may run at
    /// once. When it cannot be given back, it may run when the lease has run out.
    ///
    /// # Errors
    /// Always: [`Error::Body`].
    pub async fn give_back<T, R, E>(mut self, error: E) -> Result<Outcome<T, R>, Error<E>> {
        let given_back = self.release().await;
        log::lease_body_failed(self.lease.key(), given_back);
        Err(Error::Body(error))
    }

    /// Gives the work back because the body declined, and gives [`Outcome::Ignored`].
    ///
    /// # Errors
    /// None so far; the type is that of the other ends.
    pub async fn decline<T, R, E>(mut self, decline: Decline) -> Result<Outcome<T, R>, Error<E>> {
        self.release().await;
        let ignored = Ignored::from(decline);
        log::ignored(self.lease.key(), &ignored);
        Ok(Outcome::Ignored(ignored))
    }

    async fn write_completion<E>(mut self, result: Option<&[u8]>) -> Result<(), Error<E>> {
        self.stage = Stage::Completing;
        self.heart.set_ending();
        let completed = self.try_complete(result).await;
        self.stage = Stage::Ended;
        let (key, fence) = (self.lease.key(), self.lease.fence());
        let error = match completed {
            Ok(true) => {
                log::first(key);
                return Ok(());
            }
            Ok(false) => Error::LeaseLost(LeaseLost { key: key.to_string(), fence }),
            Err(error) => {
                Error::CompletionUnknown(CompletionUnknown { key: key.to_string(), fence, source: Box::new(error) })
            }
        };
        match &error {
            Error::LeaseLost(lost) => log::not_committed(key, lost),
            Error::CompletionUnknown(unknown) => log::not_committed(key, unknown),
            _ => {}
        }
        Err(error)
    }

    /// Tries until there is an answer, or for as long as the place that keeps the lease has patience. The lease is renewed
    /// meanwhile.
    async fn try_complete(&self, result: Option<&[u8]>) -> Result<bool, ClaimError> {
        let Heart { ledger, owned, .. } = &*self.heart;
        let since = Instant::now();
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            let error = match ledger.complete(owned, result).await {
                Ok(completed) => return Ok(completed),
                Err(error) => error,
            };
            if !may_pass(&error) || since.elapsed() >= ledger.patience() {
                return Err(error);
            }
            log::lease_restarting(&error);
            backoff.pause().await;
        }
    }

    /// Ends the lease. `false` when that could not be written down.
    async fn release(&mut self) -> bool {
        self.heart.set_ending();
        self.stage = Stage::Ended;
        let Heart { ledger, owned, .. } = &*self.heart;
        matches!(within(ledger.patience(), ledger.release(&owned.key, owned.attempt)).await, Some(Ok(())))
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        match self.stage {
            Stage::Working => log::lease_dropped(self.lease.key()),
            Stage::Completing => log::lease_dropped_while_completing(self.lease.key()),
            Stage::Ended => {}
        }
        self.heart.set_over();
    }
}

impl fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLease").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Whether another try may bring another answer.
fn may_pass(error: &ClaimError) -> bool {
    match error {
        ClaimError::Busy(_) => true,
        ClaimError::Database(error) => error.is_retryable(),
        ClaimError::Redis(error) => error.is_retryable(),
        _ => false,
    }
}

/// The body's view of the lease under which it works on something outside the database: an SMS, a call over HTTP.
///
/// The name is the promise, and its limit: after a crash, or when a lease ran out, the work is run **again**, since nobody
/// can know whether it happened. To make that harmless hand [`idempotency_key`](Self::idempotency_key) to a provider that
/// recognises repeats, or [`fence`](Self::fence) to a service that refuses older owners.
///
/// Cheap to clone, for tasks that the body starts.
#[derive(Clone)]
pub struct AtLeastOnceLease {
    about: Arc<About>,
    standing: watch::Receiver<Standing>,
}

struct About {
    key: Key,
    fence: u64,
    attempts: u64,
}

impl AtLeastOnceLease {
    /// The fencing token: greater with each owner of this action. A service that remembers the greatest that it has seen,
    /// and refuses smaller ones, is safe from an owner that comes too late.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.about.fence
    }

    /// What is worked on.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.about.key
    }

    /// How often the work was begun, this time included. More than 1: an earlier attempt failed, or ended without a word,
    /// so the work may have happened already.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.about.attempts
    }

    /// A text for the provider's own idempotency header: the same for each delivery of the action, and different for
    /// different actions. Visible ASCII, at most 200 bytes.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        super::provider_key::provider_key(self.about.key.scope_name(), self.about.key.text())
    }

    /// Whether the lease has to be taken for lost: it ran out by this machine's own clock and could not be renewed in time,
    /// somebody else has it, or the delivery has ended. The body is not stopped; its completion is refused once somebody
    /// else has taken over.
    ///
    /// A lease that ran out may still be renewed, while nobody has taken over; it is then not lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        is_lost(*self.standing.borrow())
    }

    /// Ends when the lease [is lost](Self::is_lost). For a body that would rather stop:
    /// `tokio::select! { done = send() => .., () = lease.lost() => .. }`.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await.
    pub async fn lost(&self) {
        let mut standing = self.standing.clone();
        loop {
            let seen = *standing.borrow_and_update();
            if is_lost(seen) {
                return;
            }
            let left = seen.valid_until.saturating_duration_since(Instant::now());
            // An error is the end of the sender, and so of the lease.
            if let Some(Err(_)) = within(left, standing.changed()).await {
                return;
            }
        }
    }
}

fn is_lost(standing: Standing) -> bool {
    standing.over || standing.valid_until <= Instant::now()
}

impl fmt::Debug for AtLeastOnceLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtLeastOnceLease")
            .field("key", &self.about.key)
            .field("fence", &self.about.fence)
            .field("attempts", &self.about.attempts)
            .finish_non_exhaustive()
    }
}
