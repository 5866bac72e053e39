//! The unit: claim, body, seal, commit; all or nothing.
//!
//! ```text
//!   claim ──── a repeat ────────────────────────────► Outcome::Duplicate
//!     │ └───── in the way: restart, or Busy
//!     ▼ first
//!   body ───── Err, panic, dropped ─► roll back ────► Error::Body
//!     │ Ok
//!     ▼
//!   seal ───── not the transaction that claimed ────► Error::TransactionEnded
//!     ▼
//!   commit ─── answer lost ─► the claim row decides ► First, Duplicate, Error::CommitUnknown
//!     ▼
//!   Outcome::First
//! ```

mod attempt;
mod claim;
mod mark;
mod retry;

#[cfg(feature = "consume")]
pub(crate) use attempt::share;
pub(crate) use attempt::{AttemptToken, Backoff, no_answer, within};
pub use claim::Claim;
pub use retry::Retry;

use crate::{
    error::{CommitUnknown, DatabaseError, Ending, Error, Phase, TransactionEnded},
    guard::Guard,
    key::{IntoKey, Key},
    log,
    outcome::{Decision, Decline, Ignored, Outcome, Seen},
    replay::{Keep, Replay, Replayable},
    store::{CloseError, Connection, Held, Kept, Store, Trouble, depth},
};
use claim::Settled;
use mark::Mark;
use std::{fmt, time::Duration};

/// A claimed action, on its own transaction, until it is committed or rolled back.
///
/// # Cancel safety
/// Dropping it, also in the middle of a body, of [`commit`](Self::commit) or of [`roll_back`](Self::roll_back), closes
/// the connection, and the database rolls back what was not committed. A commit already sent is durable as a whole or
/// not at all.
#[must_use = "a unit that is dropped is rolled back"]
pub struct Unit<C: Connection> {
    store: Store<C>,
    held: Held<C>,
    claimed: ClaimedAction,
    attempt: AttemptToken,
    /// Where it is all there is to the claim: without a record it tells whether the claim is durable.
    guard: Option<Box<Guard<C>>>,
    /// Further attempts that are to follow a failure of this one; only the last failure is the delivery's outcome.
    attempts_left: u32,
}

/// What was claimed; says so when it is dropped before the unit ended.
///
/// Apart from the unit, so that the unit can give its connection up before its end.
struct ClaimedAction {
    key: Key,
    stage: Stage,
    /// Its standing at the gate, where there is one.
    mark: Option<Box<Mark>>,
}

/// What became of a COMMIT.
enum Closed {
    Committed,
    /// It was lost, and another delivery has done the action since.
    ByAnother(Seen),
}

/// How far a unit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// COMMIT may be on its way.
    Closing,
    Ended,
}

impl Drop for ClaimedAction {
    fn drop(&mut self) {
        match self.stage {
            Stage::Open => log::dropped(&self.key),
            Stage::Closing => log::dropped_while_closing(&self.key),
            Stage::Ended => {}
        }
    }
}

impl ClaimedAction {
    /// Tells the gate that the unit has ended. Nothing waits for a gate that could wait for the database, or be waited for:
    /// the connection, and on SQLite the turn, is given back before.
    async fn leave_gate(&mut self, committed: Option<HasResult>, keep: Duration) {
        match (self.mark.take(), committed) {
            (None, _) => {}
            (Some(mark), Some(HasResult(has_result))) => mark.committed(has_result, keep).await,
            (Some(mark), None) => mark.release().await,
        }
    }
}

/// Whether a committed unit kept its body's result.
#[derive(Clone, Copy)]
struct HasResult(bool);

impl<C: Connection> fmt::Debug for Unit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit").field("key", &self.claimed.key).finish_non_exhaustive()
    }
}

impl<C: Connection> Unit<C> {
    /// The connection with the unit's transaction. All that is written through it is committed with the claim, or not
    /// at all. `begin()` on it makes a savepoint.
    pub fn connection(&mut self) -> &mut C {
        self.held.connection()
    }

    #[cfg(feature = "http")]
    pub(crate) fn peek(&self) -> &C {
        self.held.peek()
    }

    /// What was claimed.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.claimed.key
    }

    /// Seals and commits, and gives [`Outcome::First`] with the body's value.
    ///
    /// # Errors
    /// [`Error::TransactionEnded`] when the body lost the transaction; [`Error::Database`] when the database refuses
    /// to commit; [`Error::CommitUnknown`] when the answer was lost and nobody could be asked. When the answer was
    /// lost and another delivery turns out to have done the action, the result is [`Outcome::Duplicate`].
    pub async fn commit<T, E>(self, value: T) -> Result<Outcome<T>, Error<E>> {
        Ok(match self.close(None).await? {
            Closed::Committed => Outcome::First(value),
            Closed::ByAnother(seen) => Outcome::Duplicate(seen),
        })
    }

    /// Seals, keeps the body's value with the claim, and commits: what `replay` does. A repeat gets the value back.
    ///
    /// A value that is too large or cannot be written as JSON is not kept, with a warning in the log; the unit is
    /// committed all the same.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn commit_and_keep<T: Replayable, E>(
        self,
        value: T,
        keep: &Keep<T>,
    ) -> Result<Outcome<T, Replay<T>>, Error<E>> {
        let stored = keep.write(&value);
        log::result_not_kept(&self.claimed.key, keep, &stored);
        Ok(match self.close(Some(&stored)).await? {
            Closed::Committed => Outcome::First(value),
            Closed::ByAnother(seen) => Outcome::Duplicate(seen.replay(keep)),
        })
    }

    async fn close<E>(mut self, result: Option<&[u8]>) -> Result<Closed, Error<E>> {
        self.claimed.stage = Stage::Closing;
        let kept = result.map(|result| Kept { key: &self.claimed.key, result });
        let has_result = HasResult(kept.is_some());
        let closing = self.held.connection().close_unit(self.store.statements(), kept.as_ref());
        let closed = within(self.store.settings().answer_timeout, closing)
            .await
            .unwrap_or_else(|| Err(CloseError::Unknown(no_answer())));
        let result = match closed {
            Ok(()) => {
                if depth(self.held.connection()) == 0 {
                    self.held.set_clean();
                }
                drop(self.held);
                Ok(Closed::Committed)
            }
            Err(CloseError::Unsealed(how)) => {
                let error = self.transaction_ended(how).await;
                drop(self.held);
                Err(error)
            }
            Err(CloseError::RolledBack(error)) => {
                drop(self.held);
                let retryable = !matches!(C::trouble(&error), Trouble::Other);
                Err(Error::Database(DatabaseError { phase: Phase::Commit, retryable, source: Box::new(error) }))
            }
            Err(CloseError::Unknown(error)) => {
                // A unit needs one connection: this one makes room for the one that asks.
                drop(self.held);
                settle(&self.store, &self.claimed.key, self.attempt, error).await
            }
        };
        self.claimed.stage = Stage::Ended;
        match &result {
            Ok(Closed::ByAnother(seen)) => log::duplicate(&self.claimed.key, seen),
            Ok(Closed::Committed) => log::first(&self.claimed.key),
            Err(error @ Error::TransactionEnded(_)) => log::ended_inside(&self.claimed.key, &shown(error)),
            Err(error) if self.attempts_left > 0 && retry::is_curable(error) => {
                log::repeating(&self.claimed.key, self.attempts_left);
            }
            Err(error) => log::not_committed(&self.claimed.key, &shown(error)),
        }
        let committed = matches!(result, Ok(Closed::Committed)).then_some(has_result);
        self.claimed.leave_gate(committed, self.store.settings().retention.as_duration()).await;
        result
    }

    /// Rolls back because the body declined, and gives [`Outcome::Ignored`].
    ///
    /// # Errors
    /// [`Error::TransactionEnded`], as [`roll_back`](Self::roll_back).
    pub async fn decline<T, R, E>(self, decline: Decline) -> Result<Outcome<T, R>, Error<E>> {
        let claimed = self.take_back().await?;
        let ignored = Ignored::from(decline);
        log::ignored(&claimed.key, &ignored);
        Ok(Outcome::Ignored(ignored))
    }

    /// Rolls back claim and body, and gives [`Error::Body`] with the body's error.
    ///
    /// # Errors
    /// Always: [`Error::Body`], or [`Error::TransactionEnded`] when the body had ended the transaction and the claim
    /// is durable (or may be), so that a redelivery would be taken for a repeat.
    pub async fn roll_back<T, R, E>(self, error: E) -> Result<Outcome<T, R>, Error<E>> {
        let attempts_left = self.attempts_left;
        let claimed = self.take_back().await?;
        if attempts_left > 0 {
            log::repeating(&claimed.key, attempts_left);
        } else {
            log::body_failed(&claimed.key);
        }
        Err(Error::Body(error))
    }

    /// Rolls back claim and body.
    async fn take_back<E>(mut self) -> Result<ClaimedAction, Error<E>> {
        let rolled_back = self.roll_back_transaction().await;
        self.claimed.stage = Stage::Ended;
        match rolled_back {
            Ok(true) => {
                if depth(self.held.connection()) == 0 {
                    self.held.set_clean();
                }
                drop(self.held);
            }
            // A deadlock rolls everything back by itself, and is no fault of the body. A claim that is there all the
            // same is, and a redelivery would be taken for a repeat; so it is, too, when that cannot be ruled out.
            Ok(false) => {
                let claim_durable = self.claim_durable().await;
                // Where a guard alone is the claim, there is no record to ask for; but it passes again if nothing of it is
                // durable. A unit needs one connection: this one makes room for the one that asks.
                drop(self.held);
                let deadlock = C::ENDS_TRANSACTIONS
                    && match &self.guard {
                        None => claim_durable == Some(false),
                        Some(guard) => self.store.would_pass(guard).await,
                    };
                if !deadlock {
                    let ended = TransactionEnded { how: Ending::Ended, claim_durable };
                    log::ended_inside(&self.claimed.key, &ended);
                    return Err(Error::TransactionEnded(ended));
                }
            }
            // The connection is lost, and the server rolls back, unless the body had committed before. When nobody can
            // be asked the database is away, which is the likelier reason for all of this.
            Err(_) => {
                #[cfg(feature = "consume")]
                crate::consume::note_connection_lost();
                drop(self.held);
                if self.store.recorded(&self.claimed.key).await == Some(Some(self.attempt)) {
                    let ended = TransactionEnded { how: Ending::Ended, claim_durable: Some(true) };
                    log::ended_inside(&self.claimed.key, &ended);
                    return Err(Error::TransactionEnded(ended));
                }
            }
        }
        self.claimed.leave_gate(None, Duration::ZERO).await;
        Ok(self.claimed)
    }

    async fn transaction_ended<E>(&mut self, how: Ending) -> Error<E> {
        // What is open now, if anything, is not what claimed.
        let _ = self.roll_back_transaction().await;
        Error::TransactionEnded(TransactionEnded { how, claim_durable: self.claim_durable().await })
    }

    /// Whether this attempt's claim is in the record table, seen from outside any transaction.
    async fn claim_durable(&mut self) -> Option<bool> {
        if !self.claimed.key.is_recorded() {
            return None;
        }
        let asking = self.held.connection().recorded_attempt(self.store.statements(), &self.claimed.key);
        let recorded = within(self.store.settings().answer_timeout, asking).await?;
        recorded.ok().map(|attempt| attempt == Some(self.attempt))
    }

    async fn roll_back_transaction(&mut self) -> Result<bool, sqlx::Error> {
        let rolling_back = self.held.connection().roll_back_unit(self.store.statements());
        within(self.store.settings().answer_timeout, rolling_back).await.unwrap_or_else(|| Err(no_answer()))
    }
}

/// Finds out what became of a COMMIT whose answer was lost.
async fn settle<C: Connection, E>(
    store: &Store<C>,
    key: &Key,
    attempt: AttemptToken,
    error: sqlx::Error,
) -> Result<Closed, Error<E>> {
    let settled = store.settle(key, attempt).await;
    if let Some(settled) = &settled {
        log::commit_settled(key, matches!(settled, Settled::Committed));
    }
    match settled {
        Some(Settled::Committed) => Ok(Closed::Committed),
        Some(Settled::ByAnother(seen)) => Ok(Closed::ByAnother(seen?)),
        Some(Settled::NotCommitted) => {
            Err(Error::Database(DatabaseError { phase: Phase::Commit, retryable: true, source: Box::new(error) }))
        }
        None => Err(Error::CommitUnknown(CommitUnknown { source: Box::new(error) })),
    }
}

/// An error of the unit as text. Its body error may have none, and is not logged here.
fn shown<E>(error: &Error<E>) -> String {
    match error {
        Error::Database(error) => error.to_string(),
        Error::TransactionEnded(error) => error.to_string(),
        Error::CommitUnknown(error) => error.to_string(),
        Error::Key(error) => error.to_string(),
        Error::Busy(error) => error.to_string(),
        Error::Configuration(error) => error.to_string(),
        Error::PayloadMismatch(error) => error.to_string(),
        Error::Token(error) => error.to_string(),
        Error::Guard(error) => error.to_string(),
        Error::LeaseLost(error) => error.to_string(),
        Error::CompletionUnknown(error) => error.to_string(),
        Error::Redis(error) => error.to_string(),
        Error::Body(_) => "the body failed".to_owned(),
    }
}

impl<C: Connection> Store<C> {
    /// Does an action once: claims `key`, runs `body` on the claim's own transaction, and commits both; the power of
    /// `#[idempotent]` without the attribute.
    ///
    /// # Errors
    /// Any [`Error`]. When it returns one, nothing of the unit is durable, but for [`Error::CommitUnknown`] (durable
    /// as a whole or not at all) and [`Error::TransactionEnded`] (it says what is).
    ///
    /// # Panics
    /// Only when `body` does. The unit is rolled back and the panic goes on.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await; see [`Unit`].
    pub async fn once<T, E>(
        &self,
        key: impl IntoKey,
        body: impl AsyncFnOnce(&mut C) -> Result<T, E>,
    ) -> Result<Outcome<T>, Error<E>> {
        let mut unit = match self.claim(key).await? {
            Claim::First(unit) => unit,
            Claim::Duplicate(seen) => return Ok(Outcome::Duplicate(seen)),
        };
        match body(unit.connection()).await {
            Ok(value) => unit.commit(value).await,
            Err(error) => unit.roll_back(error).await,
        }
    }

    /// As [`once`](Self::once), for a body that may decline.
    ///
    /// # Errors
    /// As [`once`](Self::once).
    ///
    /// # Panics
    /// Only when `body` does.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await; see [`Unit`].
    pub async fn once_unless_declined<T, E>(
        &self,
        key: impl IntoKey,
        body: impl AsyncFnOnce(&mut C) -> Result<Decision<T>, E>,
    ) -> Result<Outcome<T>, Error<E>> {
        let mut unit = match self.claim(key).await? {
            Claim::First(unit) => unit,
            Claim::Duplicate(seen) => return Ok(Outcome::Duplicate(seen)),
        };
        match body(unit.connection()).await {
            Ok(Decision::Done(value)) => unit.commit(value).await,
            Ok(Decision::Declined(decline)) => unit.decline(decline).await,
            Err(error) => unit.roll_back(error).await,
        }
    }
}
