//! What became of a delivery.

use super::StoryError;
use idem_runtime::{Advice, Busy, Error, Outcome, Seen, TokenError};
use std::{collections::BTreeMap, fmt, sync::Arc};
use tokio::{sync::Barrier, task::JoinSet};

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `first`, `duplicate`, `ignored`, `busy` or `failed`; the twin without idem knows `done` and `failed` only.
    pub(crate) label: &'static str,
    /// What else there is to say: the result, the reason.
    pub(crate) says: String,
    /// What the broker is told.
    pub(crate) advice: Advice,
}

impl Answer {
    /// The answer of a handler with idem. `repeat` says what a duplicate brought.
    pub(crate) fn with_repeat<T: fmt::Display, R, E: fmt::Display>(
        handled: Result<Outcome<T, R>, Error<E>>,
        repeat: impl FnOnce(Seen<R>) -> String,
    ) -> Self {
        match handled {
            Ok(outcome) => {
                let (label, advice) = (outcome.label(), outcome.advice());
                let says = match outcome {
                    Outcome::First(value) => value.to_string(),
                    Outcome::Duplicate(seen) => repeat(seen),
                    Outcome::Ignored(ignored) => ignored.reason,
                };
                Self { label, says, advice }
            }
            Err(error) => {
                let (label, advice) = (error.label(), error.advice());
                let says = match error {
                    Error::Body(error) => error.to_string(),
                    // How long its lease still runs differs from run to run.
                    Error::Busy(Busy::InProgress { .. }) => "another delivery is at it".into(),
                    Error::Token(error) => short(&error).into(),
                    // It names two points in time, which differ from run to run.
                    Error::PayloadMismatch(_) => "other payload than the first time".into(),
                    error => error.to_string(),
                };
                Self { label, says, advice }
            }
        }
    }

    /// The answer of a handler without idem.
    pub(crate) fn plain<T: fmt::Display, E: fmt::Display>(handled: Result<T, E>) -> Self {
        match handled {
            Ok(value) => Self { label: "done", says: value.to_string(), advice: Advice::Ack },
            Err(error) => Self { label: "failed", says: error.to_string(), advice: Advice::RetryLater },
        }
    }

    /// Many answers in one: `1 first, 7 duplicate`.
    pub(crate) fn sum(answers: &[Self]) -> String {
        let mut counts = BTreeMap::new();
        for answer in answers {
            *counts.entry(answer.label).or_insert(0) += 1;
        }
        // First things first.
        let order = ["first", "done", "duplicate", "ignored", "busy", "failed"];
        let counted = order.iter().filter_map(|label| counts.get(label).map(|count| format!("{count} {label}")));
        counted.collect::<Vec<_>>().join(", ")
    }
}

impl<T: fmt::Display, E: fmt::Display> From<Result<Outcome<T>, Error<E>>> for Answer {
    fn from(handled: Result<Outcome<T>, Error<E>>) -> Self {
        Self::with_repeat(handled, |_| String::new())
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.label)?;
        if self.says.is_empty() { Ok(()) } else { write!(f, ": {}", self.says) }
    }
}

/// The answer to a token, short enough for a column, and without points in time.
const fn short(error: &TokenError) -> &'static str {
    match error {
        TokenError::Malformed => "this is no token",
        TokenError::Unknown => "token not issued here",
        TokenError::Foreign { .. } => "token issued for something else",
        TokenError::Expired { .. } => "token expired",
        _ => "token refused",
    }
}

/// Runs these deliveries in tasks that start at the same moment.
pub(crate) async fn at_once<F>(deliveries: impl IntoIterator<Item = F>) -> Result<Vec<F::Output>, StoryError>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let deliveries: Vec<F> = deliveries.into_iter().collect();
    let start = Arc::new(Barrier::new(deliveries.len()));
    let mut tasks: JoinSet<F::Output> = JoinSet::new();
    for delivery in deliveries {
        let start = Arc::clone(&start);
        tasks.spawn(async move {
            start.wait().await;
            delivery.await
        });
    }
    let mut answers = Vec::new();
    while let Some(done) = tasks.join_next().await {
        answers.push(done?);
    }
    Ok(answers)
}
