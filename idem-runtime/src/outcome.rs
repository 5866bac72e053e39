use std::time::SystemTime;

/// What a delivery came to.
///
/// Each of these means that the delivery is dealt with and may be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a duplicate did not run the body: look at the outcome, or say `let _ =`"]
pub enum Outcome<T> {
    /// The first time. The body ran, and its effects and the claim are durable.
    First(T),
    /// A repeat. The body did not run.
    Duplicate(Seen),
    /// The action is not called for now: its guard matched nothing, or its body declined. Nothing was claimed and
    /// nothing was written. No unit of this version answers it yet: guards and declining bring it.
    Ignored(Ignored),
}

impl<T> Outcome<T> {
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
}

/// What is known of the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// When the action was claimed, by the database's clock.
    pub first_at: SystemTime,
    /// The delivery that claimed it, if its handler names deliveries.
    pub delivery_id: Option<String>,
    /// The record is past its retention and only not purged yet: a repeat this late passes once it is. The window
    /// is too short for what the broker redelivers.
    pub late: bool,
}

/// Why an action was not called for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The reason, for people.
    pub reason: String,
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

/// What an annotated function returns, for a body that returns `R`: `Handled<Result<T, E>>` is
/// `Result<Outcome<T>, Error<E>>`.
pub type Handled<R> = Result<Outcome<<R as BodyResult>::Value>, crate::Error<<R as BodyResult>::Error>>;
