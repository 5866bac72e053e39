use crate::error::Advice;
use std::time::SystemTime;

/// What a delivery came to.
///
/// `R` is what a repeat brings besides: nothing, or with `replay` the first time's result ([`Replay`](crate::Replay)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a duplicate did not run the body: look at the outcome, or say `let _ =`"]
pub enum Outcome<T, R = ()> {
    /// The first time. The body ran, and its effects and the claim are durable.
    First(T),
    /// A repeat. The body did not run.
    Duplicate(Seen<R>),
    /// The action is not called for now: its guard matched nothing, or its body declined. Nothing was claimed and
    /// nothing was written, so a later delivery can run.
    Ignored(Ignored),
}

impl<T, R> Outcome<T, R> {
    /// Whether the body ran and is durable.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        matches!(self, Self::First(_))
    }

    /// Whether this delivery was a repeat.
    #[must_use]
    pub const fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate(_))
    }

    /// Whether the action was not called for.
    #[must_use]
    pub const fn is_ignored(&self) -> bool {
        matches!(self, Self::Ignored(_))
    }

    /// The body's value, if it ran.
    #[must_use]
    pub fn first(self) -> Option<T> {
        match self {
            Self::First(value) => Some(value),
            Self::Duplicate(_) | Self::Ignored(_) => None,
        }
    }

    /// The word used for this outcome in logs: `first`, `duplicate` or `ignored`.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::First(_) => "first",
            Self::Duplicate(_) => "duplicate",
            Self::Ignored(_) => "ignored",
        }
    }

    /// What a broker should do with the delivery: acknowledge it, unless the body declined and asked for another try.
    #[must_use]
    pub const fn advice(&self) -> Advice {
        match self {
            Self::First(_) | Self::Duplicate(_) => Advice::Ack,
            Self::Ignored(ignored) => ignored.advice(),
        }
    }
}

/// What is known of the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen<R = ()> {
    /// When the action was claimed, by the database's clock. `None` when no record was read: the repeat was
    /// recognised by a business table's own unique index, or by a gate that was told right after COMMIT.
    pub first_at: Option<SystemTime>,
    /// The delivery that claimed it, if its handler names deliveries.
    pub delivery_id: Option<String>,
    /// The record is past its retention and only not purged yet: a repeat this late passes once it is. The window
    /// is too short for what the broker redelivers.
    pub late: bool,
    /// What a repeat brings besides.
    pub result: R,
    /// The stored result, not yet read.
    pub(crate) stored: Option<Vec<u8>>,
}

impl Seen {
    /// A repeat of which no record is known.
    pub(crate) const fn unrecorded() -> Self {
        Self { first_at: None, delivery_id: None, late: false, result: (), stored: None }
    }
}

/// Why an action was not called for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The kind of reason.
    pub why: Why,
    /// The reason, for people.
    pub reason: String,
    /// Whether another delivery is wanted.
    pub then: Then,
}

impl Ignored {
    pub(crate) fn by_guard(why: Why) -> Self {
        let reason = match why {
            Why::NoRow => "the guard's row does not exist",
            _ => "the guard matched no row",
        };
        Self { why, reason: reason.to_owned(), then: Then::Drop }
    }

    /// What a broker should do with the delivery.
    #[must_use]
    pub const fn advice(&self) -> Advice {
        match self.then {
            Then::Retry => Advice::RetryLater,
            Then::Drop => Advice::Ack,
        }
    }
}

/// The kinds of reason for which an action is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The guard's row is there, and in another state than the guard wants: an event that is stale, or out of order.
    NotAllowed,
    /// The row that the guard names does not exist.
    NoRow,
    /// The guard changed nothing; which of the two it was is not known.
    NoMatch,
    /// The body declined.
    Declined,
}

/// What is to become of a delivery that was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Deliver it again later.
    Retry,
    /// It is dealt with.
    Drop,
}

/// What the body of a handler under `declines` returns in its `Ok`: the value, or "not now".
///
/// Declining is no error: nothing went wrong, the action is just not called for (yet). The claim and all that the body
/// wrote are given back, and the outcome is [`Outcome::Ignored`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision that is dropped decides nothing"]
pub enum Decision<T> {
    /// The work is done: commit.
    Done(T),
    /// Not now, or not at all: roll back.
    Declined(Decline),
}

impl<T> Decision<T> {
    /// Declines for now: a later delivery should try again ("the order is not here yet").
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Declined(Decline { reason: reason.into(), then: Then::Retry })
    }

    /// Declines for good: this delivery needs no other ("the order was cancelled").
    pub fn drop(reason: impl Into<String>) -> Self {
        Self::Declined(Decline { reason: reason.into(), then: Then::Drop })
    }
}

/// How a body declined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decline {
    /// The reason, for people.
    pub reason: String,
    /// Whether another delivery is wanted.
    pub then: Then,
}

impl From<Decline> for Ignored {
    fn from(decline: Decline) -> Self {
        Self { why: Why::Declined, reason: decline.reason, then: decline.then }
    }
}

/// What a body returns: a `Result`, whose error rolls the claim back.
#[diagnostic::on_unimplemented(
    message = "an `#[idempotent]` function must return `Result`, not `{Self}`",
    label = "the body's `Err` is what rolls the claim back",
    note = "without an error there is no way to let a redelivery run again"
)]
pub trait BodyResult {
    /// What the body gives when it succeeds.
    type Value;
    /// What the body gives when it fails. Nothing is demanded of it.
    type Error;
}

impl<T, E> BodyResult for Result<T, E> {
    type Value = T;
    type Error = E;
}

/// What the body of a handler under `declines` returns: `Result<Decision<T>, E>`.
#[diagnostic::on_unimplemented(
    message = "an `#[idempotent(.., declines)]` function must return `Result<Decision<_>, _>`, not `{Self}`",
    label = "with `declines` the body says `Decision::Done(value)`, `Decision::retry(reason)` or `Decision::drop(reason)`",
    note = "leave `declines` out for a body that never says \"not now\""
)]
pub trait DecidingResult {
    /// The same without the choice to decline: `Result<T, E>`.
    type Decided: BodyResult;
}

impl<T, E> DecidingResult for Result<Decision<T>, E> {
    type Decided = Result<T, E>;
}

/// `Decided<Result<Decision<T>, E>>` is `Result<T, E>`.
pub type Decided<R> = <R as DecidingResult>::Decided;

/// What an annotated function returns, for a body that returns `R`: `Handled<Result<T, E>>` is
/// `Result<Outcome<T>, Error<E>>`.
pub type Handled<R> = Result<Outcome<<R as BodyResult>::Value>, crate::Error<<R as BodyResult>::Error>>;

/// What an annotated function under `replay` returns: `Replayed<Result<T, E>>` is
/// `Result<Outcome<T, Replay<T>>, Error<E>>`.
pub type Replayed<R> = Result<
    Outcome<<R as BodyResult>::Value, crate::Replay<<R as BodyResult>::Value>>,
    crate::Error<<R as BodyResult>::Error>,
>;
