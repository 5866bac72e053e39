//! Claiming: first or repeat, with everything that can be cured before any user code has run.

use super::{
    AttemptToken, ClaimedAction, Stage, Unit,
    attempt::{Backoff, no_answer, within},
    mark::{Mark, Passed},
};
use crate::{
    error::{Busy, ClaimError, ConfigurationError, DatabaseError, GuardError, PayloadMismatch, Phase},
    guard::{self, Guard, Guarded, Ran},
    key::{Compared, IntoKey, Key, KeyError},
    log,
    outcome::{Ignored, Seen},
    store::{Claimed, Connection, Entry, Held, Part, Record, Store, Trouble, depth},
};
use std::{sync::Arc, time::Duration};

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
    /// A repeat by now; or, with another payload than that of the delivery which did it, a mismatch.
    ByAnother(Result<Seen, ClaimError>),
}

/// What is claimed: an action by its key, and by a guard where there is one.
struct Target<'a, C: Connection> {
    key: &'a Key,
    guard: Option<&'a Guard<C>>,
}

/// What one try at claiming came to.
enum Try<C: Connection> {
    First(Held<C>),
    Repeat(Box<Record>),
    /// By the conflict on a business table's own index.
    GuardRepeat,
    Ignored(Ignored),
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
    /// wrong; [`ClaimError::Database`]; [`ClaimError::PayloadMismatch`] for a key with a payload; [`ClaimError::Token`]
    /// for the key of a token.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: nothing is claimed, and no connection is left in a transaction.
    pub async fn claim(&self, key: impl IntoKey) -> Result<Claim<C>, ClaimError> {
        self.claim_attempt(key.into_key()?, 0).await
    }

    pub(super) async fn claim_attempt(&self, key: Key, attempts_left: u32) -> Result<Claim<C>, ClaimError> {
        // Without a key and without a guard nothing would tell a repeat.
        if !key.is_recorded() {
            return Err(ClaimError::Key(KeyError::NoPart));
        }
        match self.claim_target(key, None, attempts_left).await? {
            Guarded::First(unit) => Ok(Claim::First(unit)),
            Guarded::Duplicate(seen) => Ok(Claim::Duplicate(seen)),
            // Only a guard ignores.
            Guarded::Ignored(_) => Err(ClaimError::Busy(Busy::Contended(0))),
        }
    }

    pub(crate) async fn claim_with_guard(
        &self,
        key: Key,
        mut guard: Guard<C>,
        attempts_left: u32,
    ) -> Result<Guarded<C>, ClaimError> {
        if let Err(error) = guard.check() {
            let error = ClaimError::Guard(error);
            log::not_claimed(&key, &error);
            return Err(error);
        }
        let mut claimed = self.claim_target(key, Some(&guard), attempts_left).await;
        if let Ok(Guarded::First(unit)) = &mut claimed
            && !unit.claimed.key.is_recorded()
        {
            unit.guard = Some(Box::new(guard));
        }
        claimed
    }

    /// Whether a guard would let its action pass now; nothing is changed. `false` also when nobody can be asked.
    pub(super) async fn would_pass(&self, guard: &Guard<C>) -> bool {
        let Ok(mut held) = self.acquire().await else { return false };
        let limit = self.settings().lock_wait.saturating_add(self.settings().answer_timeout);
        let beginning = held.connection().begin_unit(self.statements());
        if !matches!(within(limit, beginning).await, Some(Ok(()))) {
            return false;
        }
        let passes = matches!(within(limit, guard.run(&mut held)).await, Some(Ok(Ran::Passed)));
        self.give_back(held).await;
        passes
    }

    async fn claim_target(
        &self,
        key: Key,
        guard: Option<&Guard<C>>,
        attempts_left: u32,
    ) -> Result<Guarded<C>, ClaimError> {
        #[cfg(feature = "consume")]
        crate::consume::note_claim(&key);
        let attempt = AttemptToken::new();
        let (decided, mark) = self.decide(&key, guard, attempt).await;
        match &decided {
            Ok(Decided::First(_)) => {}
            Ok(Decided::Duplicate(seen)) => log::duplicate(&key, seen),
            Ok(Decided::Ignored(ignored)) => log::ignored(&key, ignored),
            Err(error) => log::not_claimed(&key, error),
        }
        Ok(match decided? {
            Decided::First(held) => Guarded::First(Unit {
                store: self.clone(),
                held,
                claimed: ClaimedAction { key, stage: Stage::Open, mark },
                attempt,
                guard: None,
                attempts_left,
            }),
            Decided::Duplicate(seen) => Guarded::Duplicate(seen),
            Decided::Ignored(ignored) => Guarded::Ignored(ignored),
        })
    }

    /// Asks the gate, and then the store. With a first claim comes the mark that the gate holds of it.
    async fn decide(
        &self,
        key: &Key,
        guard: Option<&Guard<C>>,
        attempt: AttemptToken,
    ) -> (Result<Decided<C>, ClaimError>, Option<Box<Mark>>) {
        let Some(gate) = self.settings().gate.as_ref().filter(|_| key.is_recorded()) else {
            return (self.ask_store(key, guard, attempt, None).await, None);
        };
        let mark = match Mark::place(gate, key, attempt, self.settings().confirm).await {
            Ok(mark) => mark,
            Err(Passed::Finished(seen)) => return (Ok(Decided::Duplicate(seen)), None),
            Err(Passed::InFlight(retry_after)) => return (Err(Busy::InFlight { retry_after }.into()), None),
        };
        let decided = self.ask_store(key, guard, attempt, Some(&mark)).await;
        if let Ok(Decided::First(_)) = decided {
            return (decided, Some(mark));
        }
        mark.release().await;
        (decided, None)
    }

    async fn ask_store(
        &self,
        key: &Key,
        guard: Option<&Guard<C>>,
        attempt: AttemptToken,
        mark: Option<&Mark>,
    ) -> Result<Decided<C>, ClaimError> {
        match self.claim_once(&Target { key, guard }, attempt).await? {
            Try::First(held) => {
                if let Some(mark) = mark {
                    mark.store_knows_nothing().await;
                }
                Ok(Decided::First(held))
            }
            Try::Repeat(record) => {
                if let Some(mark) = mark {
                    mark.store_remembers(&record).await;
                }
                repeat(key, *record).map(Decided::Duplicate)
            }
            Try::GuardRepeat => Ok(Decided::Duplicate(Seen::unrecorded())),
            Try::Ignored(ignored) => Ok(Decided::Ignored(ignored)),
            Try::Again(_) => Err(ClaimError::Busy(Busy::Contended(RESTARTS + 1))),
        }
    }

    /// Claims with restarts. `Again` when they are used up.
    async fn claim_once(&self, target: &Target<'_, C>, attempt: AttemptToken) -> Result<Try<C>, ClaimError> {
        let key = target.key;
        let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
        let mut conflicts = 0;
        // A server that was restarted leaves every pooled connection dead; each is found out once.
        let mut dead_left = self.pool().size() + 1;
        let parts: &[Part] = if key.is_token() { &[Part::Records, Part::Tokens] } else { &[Part::Records] };
        for part in parts.iter().filter(|_| key.is_recorded()) {
            while let Err(error) = self.ready(*part).await {
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
        }
        let mut suspicious = false;
        loop {
            match self.try_claim(target, attempt, suspicious).await? {
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

    async fn try_claim(
        &self,
        target: &Target<'_, C>,
        attempt: AttemptToken,
        suspicious: bool,
    ) -> Result<Try<C>, ClaimError> {
        let mut held = self.acquire().await?;
        if suspicious && let Err(error) = held.connection().ping().await {
            return Ok(Try::Again(Reason::Dead(error)));
        }
        let limit = self.settings().lock_wait.saturating_add(self.settings().answer_timeout);
        let claimed = if target.key.is_recorded() {
            let entry = Entry { key: target.key, attempt };
            let claiming = held.connection().claim(self.statements(), &entry);
            within(limit, claiming).await.unwrap_or_else(|| Err(no_answer()))
        } else {
            let beginning = held.connection().begin_unit(self.statements());
            let begun = within(limit, beginning).await.unwrap_or_else(|| Err(no_answer()));
            begun.map(|()| Claimed::First)
        };
        match claimed {
            Ok(Claimed::First) => self.check_claim(held, target).await,
            Ok(Claimed::Repeat(record)) => {
                release(held);
                Ok(Try::Repeat(Box::new(record)))
            }
            Ok(Claimed::Gone) => {
                release(held);
                Ok(Try::Again(Reason::Conflict(Box::new("the record was gone when it was to be read"))))
            }
            Err(error) => self.claim_failed(held, error, Part::Records).await,
        }
    }

    /// What follows the claim before the body: whether the token was issued, and the guard.
    async fn check_claim(&self, mut held: Held<C>, target: &Target<'_, C>) -> Result<Try<C>, ClaimError> {
        let limit = self.settings().lock_wait.saturating_add(self.settings().answer_timeout);
        if target.key.is_token() {
            let checking = self.check_token(&mut held, target.key);
            match within(limit, checking).await.unwrap_or_else(|| Err(no_answer())) {
                Ok(None) => {}
                Ok(Some(error)) => {
                    self.give_back(held).await;
                    return Err(ClaimError::Token(error));
                }
                Err(error) => return self.claim_failed(held, error, Part::Tokens).await,
            }
        }
        let Some(guard) = target.guard else { return Ok(Try::First(held)) };
        let running = guard.run(&mut held);
        let ended = match within(limit, running).await.unwrap_or_else(|| Err(no_answer())) {
            Ok(Ran::Passed) => return Ok(Try::First(held)),
            Ok(Ran::Duplicate) => Ok(Try::GuardRepeat),
            Ok(Ran::Ignored(ignored)) => Ok(Try::Ignored(ignored)),
            Ok(Ran::NeverRepeats) => Err(ClaimError::Guard(GuardError::NeverRepeats)),
            Ok(Ran::Many(rows)) => Err(ClaimError::Guard(GuardError::ManyRows { rows })),
            Err(error) => return self.guard_failed(held, guard, error).await,
        };
        self.give_back(held).await;
        ended
    }

    async fn guard_failed(
        &self,
        mut held: Held<C>,
        guard: &Guard<C>,
        error: sqlx::Error,
    ) -> Result<Try<C>, ClaimError> {
        let trouble = C::trouble(&error);
        if trouble == Trouble::Connection {
            return Ok(Try::Again(Reason::Dead(error)));
        }
        let limit = self.settings().answer_timeout;
        let resetting = held.connection().reset(self.statements());
        if !matches!(within(limit, resetting).await, Some(Ok(()))) {
            return Ok(Try::Again(Reason::Dead(error)));
        }
        // While nobody can be asked which index it was, it is neither a repeat nor an error for good.
        let repeat = match within(limit, guard.is_repeat(&mut held, &error)).await {
            Some(Ok(repeat)) => repeat,
            Some(Err(asking)) if C::trouble(&asking) == Trouble::Other => false,
            Some(Err(_)) | None => return Ok(Try::Again(Reason::Dead(error))),
        };
        release(held);
        match trouble {
            _ if repeat => Ok(Try::GuardRepeat),
            Trouble::Conflict => Ok(Try::Again(Reason::Conflict(Box::new(error)))),
            Trouble::LockWait => Err(ClaimError::Busy(Busy::Claimed(self.settings().lock_wait))),
            _ => Err(ClaimError::Guard(guard::failed::<C>(error))),
        }
    }

    /// What an error of the claim means that `part` answered.
    async fn claim_failed(&self, mut held: Held<C>, error: sqlx::Error, part: Part) -> Result<Try<C>, ClaimError> {
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
            Trouble::NoTable => Err(ClaimError::Configuration(self.no_table(part))),
            Trouble::Connection | Trouble::Other => Err(database(Phase::Claim, false, error)),
        }
    }

    /// Rolls a claim back before any user code has run. A connection on which that fails is closed.
    async fn give_back(&self, mut held: Held<C>) {
        let rolling_back = held.connection().roll_back_unit(self.statements());
        if matches!(within(self.settings().answer_timeout, rolling_back).await, Some(Ok(_))) {
            release(held);
        }
    }

    /// A connection, and on a database with one writer its turn.
    pub(crate) async fn acquire(&self) -> Result<Held<C>, ClaimError> {
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
        if !key.is_recorded() {
            return None;
        }
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
        // Where a guard alone is the claim there is no row that says who changed the business table.
        if !key.is_recorded() {
            return None;
        }
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        for _ in 0..SETTLE_TRIES {
            // The guard stays away: whether the action is called for is not the question.
            match self.claim_once(&Target { key, guard: None }, AttemptToken::new()).await {
                Ok(Try::First(held)) => {
                    self.give_back(held).await;
                    return Some(Settled::NotCommitted);
                }
                Ok(Try::Repeat(record)) if record.attempt == Some(lost) => return Some(Settled::Committed),
                Ok(Try::Repeat(record)) => return Some(Settled::ByAnother(repeat(key, *record))),
                // The token has expired since, so it was not burnt.
                Err(ClaimError::Token(_)) => return Some(Settled::NotCommitted),
                Ok(_) | Err(_) => backoff.pause().await,
            }
        }
        None
    }
}

/// What a claim comes to, once nothing is left to be cured.
enum Decided<C: Connection> {
    First(Held<C>),
    Duplicate(Seen),
    Ignored(Ignored),
}

/// A repeat, unless it carries another payload than the first time.
fn repeat(key: &Key, record: Record) -> Result<Seen, ClaimError> {
    if let (Some(ours), Some(stored)) = (key.fingerprint(), &record.fingerprint) {
        match ours.compare(stored) {
            Compared::Same => {}
            Compared::OtherShape => log::payload_not_comparable(key),
            Compared::Different => {
                return Err(ClaimError::PayloadMismatch(PayloadMismatch {
                    key: key.to_string(),
                    first_at: record.claimed_at.into(),
                    now: record.now.into(),
                    first_delivery: record.delivery_id,
                }));
            }
        }
    }
    Ok(seen(record))
}

fn seen(record: Record) -> Seen {
    Seen {
        first_at: Some(record.claimed_at.into()),
        late: record.keep_until < record.now,
        delivery_id: record.delivery_id,
        result: (),
        stored: record.result,
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
