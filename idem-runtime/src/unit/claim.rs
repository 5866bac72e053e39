//! Claiming: first or repeat, with everything that can be cured before any user code has run.

use super::{
    AttemptToken, ClaimedAction, Stage, Unit,
    attempt::{Backoff, no_answer, within},
};
use crate::{
    error::{Busy, ClaimError, ConfigurationError, DatabaseError, Phase},
    key::{IntoKey, Key},
    log,
    outcome::Seen,
    store::{Claimed, Connection, Entry, Held, Store, Trouble, depth},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How often a unit is started again over conflicts on its claim. At most three were needed when ten deliveries raced
/// for a key and the holders failed.
const RESTARTS: u32 = 8;
/// How often the database is asked what became of a lost COMMIT. With the pauses about 6 seconds, and for each try up
/// to the lock wait.
const SETTLE_TRIES: u32 = 8;

/// What a claim decided.
#[derive(Debug)]
#[must_use = "a claim that is dropped is rolled back"]
pub enum Claim<C: Connection> {
    /// The first time: run the body on the unit's connection, then commit or roll back.
    First(Unit<C>),
    /// A repeat: do not run the body.
    Duplicate(Seen),
}

/// What became of a COMMIT whose answer was lost.
pub(super) enum Settled {
    Committed,
    NotCommitted,
    ByAnother(Seen),
}

/// What one try at claiming came to.
enum Try<C: Connection> {
    First(Held<C>),
    Repeat(Seen, Option<AttemptToken>),
    Again(Reason),
}

enum Reason {
    /// Somebody was in the way and is gone.
    Conflict(Box<dyn std::fmt::Display + Send + Sync>),
    /// The connection was dead.
    Dead(sqlx::Error),
}

impl<C: Connection> Store<C> {
    /// Claims an action: the first step of a unit. [`once`](Self::once) and `#[idempotent]` call it.
    ///
    /// The claim waits for another delivery of the same action at most the store's lock wait. Conflicts that another
    /// start cures (deadlocks, serialization failures, dead connections) are cured here: no user code has run.
    ///
    /// # Errors
    /// [`ClaimError::Key`] before any SQL; [`ClaimError::Busy`]; [`ClaimError::Configuration`] when the store is set up
    /// wrong; [`ClaimError::Database`].
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: nothing is claimed, and no connection is left in a transaction.
    pub async fn claim(&self, key: impl IntoKey) -> Result<Claim<C>, ClaimError> {
        self.claim_attempt(key.into_key()?, 0).await
    }

    pub(super) async fn claim_attempt(&self, key: Key, attempts_left: u32) -> Result<Claim<C>, ClaimError> {
        let attempt = AttemptToken::new();
        match self.claim_once(&key, attempt).await {
            Ok(Try::First(held)) => Ok(Claim::First(Unit {
                store: self.clone(),
                held,
                claimed: ClaimedAction { key, stage: Stage::Open },
                attempt,
                attempts_left,
            })),
            Ok(Try::Repeat(seen, _)) => {
                log::duplicate(&key, &seen);
                Ok(Claim::Duplicate(seen))
            }
            Ok(Try::Again(_)) => {
                let error = ClaimError::Busy(Busy::Contended(RESTARTS + 1));
                log::not_claimed(&key, &error);
                Err(error)
            }
            Err(error) => {
                log::not_claimed(&key, &error);
                Err(error)
            }
        }
    }

    /// Claims with restarts. `Again` when they are used up.
    async fn claim_once(&self, key: &Key, attempt: AttemptToken) -> Result<Try<C>, ClaimError> {
        let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
        let mut conflicts = 0;
        // A server that was restarted leaves every pooled connection dead; each is found out once.
        let mut dead_left = self.pool().size() + 1;
        while let Err(error) = self.ready().await {
            match error {
                ConfigurationError::Connect(error) => return Err(self.connect_failed(*error)),
                ConfigurationError::Database(error)
                    if dead_left > 0 && C::trouble(&error.source) == Trouble::Connection =>
                {
                    dead_left -= 1;
                    log::restarting(key, &error);
                }
                ConfigurationError::Database(error) => return Err(ClaimError::Database(error)),
                error => return Err(ClaimError::Configuration(error)),
            }
        }
        let mut suspicious = false;
        loop {
            match self.try_claim(key, attempt, suspicious).await? {
                Try::Again(Reason::Conflict(error)) => {
                    if conflicts == RESTARTS {
                        return Ok(Try::Again(Reason::Conflict(error)));
                    }
                    conflicts += 1;
                    log::restarting(key, &error);
                    backoff.pause().await;
                }
                Try::Again(Reason::Dead(error)) => {
                    if dead_left == 0 {
                        return Err(database(Phase::Claim, true, error));
                    }
                    dead_left -= 1;
                    suspicious = true;
                    log::restarting(key, &error);
                }
                done => return Ok(done),
            }
        }
    }

    async fn try_claim(&self, key: &Key, attempt: AttemptToken, suspicious: bool) -> Result<Try<C>, ClaimError> {
        let mut held = self.acquire().await?;
        if suspicious && let Err(error) = held.connection().ping().await {
            return Ok(Try::Again(Reason::Dead(error)));
        }
        let limit = self.settings().lock_wait.saturating_add(self.settings().answer_timeout);
        let entry = Entry { key, attempt };
        let claiming = held.connection().claim(self.statements(), &entry);
        let error = match within(limit, claiming).await.unwrap_or_else(|| Err(no_answer())) {
            Ok(Claimed::First) => return Ok(Try::First(held)),
            Ok(Claimed::Repeat(record)) => {
                release(held);
                let since = Duration::from_millis(u64::try_from(record.claimed_at).unwrap_or(0));
                let first_at = SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
                let seen = Seen { first_at, delivery_id: record.delivery_id, late: record.late };
                return Ok(Try::Repeat(seen, record.attempt));
            }
            Ok(Claimed::Gone) => {
                release(held);
                return Ok(Try::Again(Reason::Conflict(Box::new("the record was gone when it was to be read"))));
            }
            Err(error) => error,
        };
        let trouble = C::trouble(&error);
        if trouble == Trouble::Connection {
            return Ok(Try::Again(Reason::Dead(error)));
        }
        let resetting = held.connection().reset(self.statements());
        if matches!(within(self.settings().answer_timeout, resetting).await, Some(Ok(()))) {
            release(held);
        }
        match trouble {
            Trouble::Conflict => Ok(Try::Again(Reason::Conflict(Box::new(error)))),
            Trouble::LockWait => Err(ClaimError::Busy(Busy::Claimed(self.settings().lock_wait))),
            Trouble::NoTable => Err(ClaimError::Configuration(ConfigurationError::NoTable {
                table: self.settings().table.to_string(),
                sql: self.migration_sql(),
            })),
            Trouble::Connection | Trouble::Other => Err(database(Phase::Claim, false, error)),
        }
    }

    async fn acquire(&self) -> Result<Held<C>, ClaimError> {
        let lock_wait = self.settings().lock_wait;
        let turn = match self.turn() {
            Some(turn) => {
                let turn = Arc::clone(turn).acquire_owned();
                // The semaphore is never closed.
                Some(within(lock_wait, turn).await.and_then(Result::ok).ok_or(Busy::Claimed(lock_wait))?)
            }
            None => None,
        };
        Held::acquire(self.pool(), turn).await.map_err(|error| self.connect_failed(error))
    }

    fn connect_failed(&self, error: sqlx::Error) -> ClaimError {
        match error {
            sqlx::Error::PoolTimedOut => {
                ClaimError::Busy(Busy::NoConnection(self.pool().options().get_acquire_timeout()))
            }
            error => {
                let retryable = C::trouble(&error) == Trouble::Connection;
                database(Phase::Connect, retryable, error)
            }
        }
    }

    /// The attempt that is recorded for a key. `None` when the database does not answer.
    pub(super) async fn recorded(&self, key: &Key) -> Option<Option<AttemptToken>> {
        let mut held = self.acquire().await.ok()?;
        let asking = held.connection().recorded_attempt(self.statements(), key);
        let recorded = within(self.settings().answer_timeout, asking).await?.ok()?;
        release(held);
        Some(recorded)
    }

    /// Asks the claim what became of a lost COMMIT. `None` when the database does not answer in time.
    ///
    /// Looking is not enough: a row that is not there yet may still be committed by the session whose answer was lost.
    /// So the key is claimed once more, which waits for that session, and rolled back.
    pub(super) async fn settle(&self, key: &Key, lost: AttemptToken) -> Option<Settled> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        for _ in 0..SETTLE_TRIES {
            match self.claim_once(key, AttemptToken::new()).await {
                Ok(Try::First(mut held)) => {
                    let rolling_back = held.connection().roll_back_unit(self.statements());
                    if matches!(within(self.settings().answer_timeout, rolling_back).await, Some(Ok(_))) {
                        release(held);
                    }
                    return Some(Settled::NotCommitted);
                }
                Ok(Try::Repeat(_, attempt)) if attempt == Some(lost) => return Some(Settled::Committed),
                Ok(Try::Repeat(seen, _)) => return Some(Settled::ByAnother(seen)),
                Ok(Try::Again(_)) | Err(_) => backoff.pause().await,
            }
        }
        None
    }
}

/// Gives a connection back to the pool when sqlx, too, thinks that nothing is open on it.
fn release<C: Connection>(mut held: Held<C>) {
    if depth(held.connection()) == 0 {
        held.set_clean();
    }
}

fn database(phase: Phase, retryable: bool, error: sqlx::Error) -> ClaimError {
    ClaimError::Database(DatabaseError { phase, retryable, source: Box::new(error) })
}
