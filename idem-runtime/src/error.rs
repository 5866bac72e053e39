//! What can go wrong with a delivery, and what to do with it.

use crate::key::KeyError;
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// Why a delivery is not dealt with.
///
/// `E` is the body's own error; nothing is demanded of it. In every case but [`CommitUnknown`](Self::CommitUnknown)
/// and [`TransactionEnded`](Self::TransactionEnded) nothing of the unit is durable, so a redelivery can run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The key cannot be used. Permanent; no SQL ran.
    #[error("the key cannot be used: {0}")]
    Key(KeyError),
    /// The body failed. The claim and all the body wrote are rolled back.
    #[error("the body failed: {0}")]
    Body(E),
    /// Somebody else is in the way: another delivery of this action is running, or no connection is free. No body
    /// ran. Deliver again later.
    #[error("{0}")]
    Busy(Busy),
    /// The database failed, and the unit is rolled back.
    #[error("{0}")]
    Database(DatabaseError),
    /// The body swallowed a database error that spoils the transaction, or ended the transaction that claimed.
    #[error("{0}")]
    TransactionEnded(TransactionEnded),
    /// The answer to COMMIT was lost and could not be found out. Deliver again: the claim decides.
    #[error("{0}")]
    CommitUnknown(CommitUnknown),
    /// The same action arrived with another payload: a mistake of the sender, or fraud. Permanent; no body ran.
    #[error("{0}")]
    PayloadMismatch(PayloadMismatch),
    /// The one-time token is none of ours, or no longer. Permanent; no body ran. (A token that was used before is
    /// [`Outcome::Duplicate`](crate::Outcome::Duplicate).)
    #[error("{0}")]
    Token(TokenError),
    /// The guard could not decide. Rolled back; no body ran.
    #[error("{0}")]
    Guard(GuardError),
    /// The lease ran out while the body was working and somebody else took over: the work may have been done twice.
    #[error("{0}")]
    LeaseLost(LeaseLost),
    /// The work under a lease was done, and it could not be written down that it was: it runs again once the lease has
    /// run out, unless somebody resolves it before.
    #[error("{0}")]
    CompletionUnknown(CompletionUnknown),
    /// Redis, where the leases are kept, failed.
    #[error("{0}")]
    Redis(RedisError),
    /// The store cannot work as it is set up.
    #[error("{0}")]
    Configuration(ConfigurationError),
}

/// What a broker should do with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// It is dealt with.
    Ack,
    /// It may succeed when it is delivered again later.
    RetryLater,
    /// It fails the same way each time, or a person has to look at it.
    DeadLetter,
}

impl<E> Error<E> {
    /// Whether the same delivery may succeed later. The body's own error counts as retryable: what is inside it is
    /// the application's knowledge, so an application that knows better should look at [`Body`](Self::Body) first.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Key(_)
            | Self::TransactionEnded(_)
            | Self::PayloadMismatch(_)
            | Self::Token(_)
            | Self::Configuration(_) => false,
            Self::Body(_)
            | Self::Busy(_)
            | Self::CommitUnknown(_)
            | Self::LeaseLost(_)
            | Self::CompletionUnknown(_) => true,
            Self::Redis(error) => error.is_retryable(),
            Self::Database(error) => error.retryable,
            Self::Guard(error) => error.is_retryable(),
        }
    }

    /// What a broker should do with the delivery.
    ///
    /// A store that is set up wrong, or a database error that no retry cures, is not the message's fault: the advice
    /// is to retry later, so that no message is put aside while an operator repairs the set-up.
    #[must_use]
    pub const fn advice(&self) -> Advice {
        match self {
            // A fault of the handler and not of the message.
            Self::Key(KeyError::NoPart | KeyError::Scope { .. } | KeyError::ScopeShared { .. }) => Advice::RetryLater,
            Self::Key(_) | Self::TransactionEnded(_) | Self::PayloadMismatch(_) | Self::Token(_) => Advice::DeadLetter,
            Self::Guard(error) if error.is_the_messages() => Advice::DeadLetter,
            Self::Body(_)
            | Self::Busy(_)
            | Self::Database(_)
            | Self::CommitUnknown(_)
            | Self::Guard(_)
            | Self::LeaseLost(_)
            | Self::CompletionUnknown(_)
            | Self::Redis(_)
            | Self::Configuration(_) => Advice::RetryLater,
        }
    }

    /// The body's own error, if that is what failed.
    pub fn into_body(self) -> Option<E> {
        match self {
            Self::Body(error) => Some(error),
            _ => None,
        }
    }

    /// The word used for this error in logs: `busy` or `failed`.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Busy(_) => "busy",
            _ => "failed",
        }
    }
}

/// Why an action could not be claimed. Becomes an [`Error`] with `?`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// See [`Error::Key`].
    #[error("the key cannot be used: {0}")]
    Key(KeyError),
    /// See [`Error::Busy`].
    #[error("{0}")]
    Busy(#[from] Busy),
    /// See [`Error::Database`].
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// See [`Error::Configuration`].
    #[error("{0}")]
    Configuration(#[from] ConfigurationError),
    /// See [`Error::PayloadMismatch`].
    #[error("{0}")]
    PayloadMismatch(#[from] PayloadMismatch),
    /// See [`Error::Token`].
    #[error("{0}")]
    Token(#[from] TokenError),
    /// See [`Error::Guard`].
    #[error("{0}")]
    Guard(#[from] GuardError),
    /// See [`Error::Redis`].
    #[error("{0}")]
    Redis(#[from] RedisError),
}

impl From<KeyError> for ClaimError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Token(error) => Self::Token(error),
            error => Self::Key(error),
        }
    }
}

impl<E> From<ClaimError> for Error<E> {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Key(error) => Self::Key(error),
            ClaimError::Busy(error) => Self::Busy(error),
            ClaimError::Database(error) => Self::Database(error),
            ClaimError::Configuration(error) => Self::Configuration(error),
            ClaimError::PayloadMismatch(error) => Self::PayloadMismatch(error),
            ClaimError::Token(error) => Self::Token(error),
            ClaimError::Guard(error) => Self::Guard(error),
            ClaimError::Redis(error) => Self::Redis(error),
        }
    }
}

/// The same action with another payload than the first time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{key}` came with another payload than the first time: first at {}, now at {}{}. Nothing ran. Either two actions have \
     one key, or somebody changed the message",
    utc(*.first_at), utc(*.now), match .first_delivery { Some(id) => format!(" (first delivery {id})"), None => String::new() }
)]
#[non_exhaustive]
pub struct PayloadMismatch {
    /// Scope and key.
    pub key: String,
    /// When the action was claimed first, by the database's clock.
    pub first_at: SystemTime,
    /// When it came with the other payload, by the same clock.
    pub now: SystemTime,
    /// The delivery that claimed it, if its handler names deliveries.
    pub first_delivery: Option<String>,
}

/// Why a one-time token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It has not the form of a token.
    #[error("this is no token: it has not the form of one")]
    Malformed,
    /// It was never issued here, or so long ago that nothing is known of it: forged, or from another system.
    #[error("this token was not issued here")]
    Unknown,
    /// It was issued for something else.
    #[error("this token was issued for something else than `{scope}`")]
    Foreign {
        /// What it was used for.
        scope: String,
    },
    /// It was not used in time.
    #[error("this token expired at {}", utc(*.at))]
    Expired {
        /// When, by the database's clock.
        at: SystemTime,
    },
}

/// Why a guard could not decide.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// It changed several rows, and must change exactly one.
    #[error("the guard matched {rows} rows, and must match one: what names the row is not unique. All is rolled back")]
    ManyRows {
        /// How many.
        rows: u64,
    },
    /// It inserts NULL into its unique index, where NULL never conflicts, so each repeat would be a first time.
    #[error(
        "the guard would insert its row again and again: a value of its unique index is NULL, and NULL never conflicts. \
         All is rolled back. Send a value, and make the index's columns NOT NULL"
    )]
    NeverRepeats,
    /// A value could not be bound.
    #[error("value number {number} of the guard could not be bound: {source}")]
    Bind {
        /// Its number, from 1, in the statement or in its `exists` query.
        number: usize,
        /// The driver's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database refused the guard.
    #[error("the guard failed: {source}")]
    Database {
        /// Whether the same delivery may succeed later.
        retryable: bool,
        /// A constraint of the table refused the values.
        refused: bool,
        /// The driver's error.
        source: Box<sqlx::Error>,
    },
}

impl GuardError {
    /// Whether the same delivery may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::ManyRows { .. } | Self::NeverRepeats | Self::Bind { .. } => false,
            Self::Database { retryable, .. } => *retryable,
        }
    }

    /// Whether it is the message that is at fault: a value that the table refuses. A missing table or right is not, and no
    /// message is put aside while an operator repairs it.
    const fn is_the_messages(&self) -> bool {
        match self {
            Self::ManyRows { .. } | Self::NeverRepeats | Self::Bind { .. } => true,
            Self::Database { refused, .. } => *refused,
        }
    }
}

/// A lease was lost to another owner before its work was completed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the lease of `{key}` was lost while the work was running (fencing token {fence}): another delivery has taken over, \
     and the work may have been done twice. Its completion was refused"
)]
#[non_exhaustive]
pub struct LeaseLost {
    /// Scope and key.
    pub key: String,
    /// The fencing token of the owner that was too late.
    pub fence: u64,
}

/// The work under a lease was done, and its completion could not be written down in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "the work of `{key}` was done under its lease (fencing token {fence}), and that could not be written down: {source}. \
     It runs again once the lease has run out, so ask the other side whether it happened, and resolve it"
)]
#[non_exhaustive]
pub struct CompletionUnknown {
    /// Scope and key.
    pub key: String,
    /// The fencing token of the owner.
    pub fence: u64,
    /// What stood in the way last.
    pub source: Box<ClaimError>,
}

/// Redis, where the leases are kept, failed.
#[derive(Debug)]
pub struct RedisError {
    pub(crate) retryable: bool,
    pub(crate) source: Box<dyn std::error::Error + Send + Sync>,
}

impl RedisError {
    /// Whether the same step may succeed later: a lost connection, a fail-over, a server that is loading.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.retryable
    }
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeat = if self.retryable { "retryable" } else { "not retryable" };
        write!(f, "Redis failed while keeping a lease ({repeat}): {}", self.source)
    }
}

impl std::error::Error for RedisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// A point in time for people, in UTC and to the second.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days since 1970-01-01, in eras of 400 years that start in March.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (date, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// What a delivery waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// Another delivery holds the claim of this action (or, on SQLite, the one writer of the database).
    #[error(
        "another delivery of this action is running, or the record table is locked: the claim was not free within {0:?}; \
         deliver again later"
    )]
    Claimed(Duration),
    /// The work is going on under a lease of another delivery.
    #[error("another delivery is working on this action under a lease; deliver again in {retry_after:?}")]
    InProgress {
        /// When the lease ends, if it is not renewed.
        retry_after: Duration,
    },
    /// A gate says that another delivery of this action is running.
    #[error("another delivery of this action is running, as the gate says; deliver again in {retry_after:?}")]
    InFlight {
        /// When its mark expires, if it ends without a word.
        retry_after: Duration,
    },
    /// Deliveries kept conflicting over the claim.
    #[error("the claim conflicted with other transactions {0} times in a row; deliver again later")]
    Contended(u32),
    /// No connection became free.
    #[error(
        "no database connection could be had within {0:?}: the database does not answer, or each connection of the pool \
         is in use. Does a body use the pool instead of the connection it is given?"
    )]
    NoConnection(Duration),
}

/// A database error outside the body.
#[derive(Debug)]
pub struct DatabaseError {
    pub(crate) phase: Phase,
    pub(crate) retryable: bool,
    pub(crate) source: Box<sqlx::Error>,
}

/// In which step of the unit the database failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Getting a connection.
    Connect,
    /// The claim.
    Claim,
    /// The commit; the database said that it did not happen.
    Commit,
    /// Creating or checking the record table.
    Schema,
    /// Beginning, completing or looking up work under a lease.
    Lease,
}

impl DatabaseError {
    /// The step that failed.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the same step may succeed later: lost connections, deadlocks, serialization failures, a full server.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// The driver's error.
    #[must_use]
    pub fn driver_error(&self) -> &sqlx::Error {
        &self.source
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.phase {
            Phase::Connect => "connecting to the database",
            Phase::Claim => "claiming the action",
            Phase::Commit => "committing the unit",
            Phase::Schema => "creating or checking the record table",
            Phase::Lease => "keeping a lease",
        };
        let repeat = if self.retryable { "retryable" } else { "not retryable" };
        // A lease may have been written all the same, with the answer lost.
        let written = if self.phase == Phase::Lease { "" } else { "; nothing was written" };
        write!(f, "the database failed while {step} ({repeat}{written}): {}", self.source)
    }
}

impl std::error::Error for DatabaseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// The transaction that claimed was no longer the one to be committed, or could not be committed.
///
/// This is a fault in the body. Nothing is reported as done, and the connection is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionEnded {
    /// What happened to it.
    pub how: Ending,
    /// Whether the claim is durable all the same. Then part of the body is too, and redeliveries are taken for
    /// repeats: a person has to look. `None` when the database could not be asked.
    pub claim_durable: Option<bool>,
}

/// How a body can lose the transaction it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// A statement failed, the body went on, and the database refuses to commit what is left.
    ErrorSwallowed,
    /// The transaction ended inside the body: a COMMIT or ROLLBACK of its own, a statement that commits by itself
    /// (DDL on MySQL and MariaDB), or an error after which the database rolls everything back (a deadlock) that the
    /// body swallowed.
    Ended,
}

impl fmt::Display for TransactionEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.how {
            Ending::ErrorSwallowed => f.write_str(
                "the body went on after a database error, so the database refuses to commit: \
                 pass the error on with `?`, or wrap the statement that may fail in a savepoint (`db.begin()`)",
            )?,
            Ending::Ended => f.write_str(
                "the transaction that claimed was ended inside the body: by a COMMIT or ROLLBACK of its own, by a \
                 statement that commits by itself (DDL), or by a database error that the body swallowed",
            )?,
        }
        f.write_str(match self.claim_durable {
            Some(false) => ". The claim is not durable: a redelivery runs the body again",
            Some(true) => {
                ". The claim IS durable, and so may be part of the body: redeliveries are taken for repeats. \
                 Check the data by hand"
            }
            None => ". Whether the claim is durable could not be asked: check the record and the data by hand",
        })
    }
}

impl std::error::Error for TransactionEnded {}

/// The answer to COMMIT was lost, and the database could not be asked in time.
#[derive(Debug)]
pub struct CommitUnknown {
    pub(crate) source: Box<sqlx::Error>,
}

impl CommitUnknown {
    /// The driver's error at COMMIT.
    #[must_use]
    pub fn driver_error(&self) -> &sqlx::Error {
        &self.source
    }
}

impl fmt::Display for CommitUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the answer to COMMIT was lost and the database could not be asked: the unit is durable as a whole or not \
             at all. Deliver again, and the claim decides: {}",
            self.source
        )
    }
}

impl std::error::Error for CommitUnknown {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// Why a store cannot work as it is set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The table name is not one or two plain identifiers.
    #[error(
        "`{0}` cannot be the record table's name: use letters, digits and `_`, at most 48 of them, not starting with \
         a digit, optionally behind a schema and a dot"
    )]
    TableName(String),
    /// The database URL or its options are refused.
    #[error("the database cannot be reached as configured: {0}")]
    Connect(#[source] Box<sqlx::Error>),
    /// SQLite in memory, set up so that its records would vanish with a connection.
    #[error(
        "this pool opens a database in memory that is lost with its connection, or is another one for each connection: \
         use the URL `sqlite::memory:` (one database in memory, kept alive by the store) or a file"
    )]
    PrivateMemory,
    /// There is no record table.
    #[error("there is no record table `{table}`: call `store.migrate().await` once, or run this SQL:\n{sql}")]
    NoTable {
        /// The table.
        table: String,
        /// What creates it.
        sql: String,
    },
    /// The record table cannot keep the promises.
    #[error("the record table `{table}` cannot be used: {}\nIt should be:\n{sql}", .faults.join("; "))]
    Table {
        /// The table.
        table: String,
        /// What is wrong with it, a sentence each, with what to run.
        faults: Vec<String>,
        /// What creates a right one.
        sql: String,
    },
    /// The retention is shorter than the time in which a message can still be delivered again.
    #[error(
        "records are kept for {retention:?}, and must be kept for at least {needed:?}: {because}. Raise it with \
         `.retention(Retention::of(..))`, or let `Retention::covering(..)` compute it"
    )]
    Retention {
        /// What is configured.
        retention: Duration,
        /// The least that covers every redelivery.
        needed: Duration,
        /// How it was computed.
        because: String,
    },
    /// A lease is too short to be renewed in time, or too long to be waited for.
    #[error("a lease of {0:?} cannot be used: it must be at least 1 second and at most 1 day")]
    Lease(Duration),
    /// A one-time token was to be leased. It is burnt by the claim of a unit, in the database that issued it.
    #[error("a one-time token cannot be leased: let a unit burn it (`token = ..` without `lease`)")]
    LeaseOfToken,
    /// Redis cannot be reached as configured, or the namespace cannot be used.
    #[error("Redis cannot be used as configured: {0}")]
    Redis(String),
    /// The gate cannot be used as configured.
    #[error("the gate cannot be used as configured: {0}")]
    Gate(String),
    /// The table could not be created or looked at.
    #[error("{0}")]
    Database(#[source] DatabaseError),
}

#[cfg(test)]
mod tests {
    use super::utc;
    use std::time::{Duration, SystemTime};

    #[test]
    fn times_are_shown_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_780_142_400, "2026-05-30T12:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
