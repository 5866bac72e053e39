//! Outcomes as answers.

use super::{
    problem::{self, Problem, ProblemKind},
    settings::HttpSettings,
};
use crate::{
    error::Error,
    outcome::{Outcome, Then},
    replay::{Replay, Unavailable},
};
use axum::{
    http::{HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};

/// The header that marks an answer to a repeat.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What a repeat brings: with `replay` the first time's result, else nothing.
pub trait Repeat<T>: sealed::Sealed {
    #[doc(hidden)]
    fn value(self) -> Result<T, Option<Unavailable>>;
}

impl<T> Repeat<T> for () {
    fn value(self) -> Result<T, Option<Unavailable>> {
        Err(None)
    }
}

impl<T> Repeat<T> for Replay<T> {
    fn value(self) -> Result<T, Option<Unavailable>> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Unavailable(why) => Err(Some(why)),
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<T> Sealed for super::Replay<T> {}
}

impl HttpSettings {
    /// The answer to a request, from what its handler came to.
    ///
    /// | outcome | answer |
    /// | --- | --- |
    /// | first | the value's |
    /// | duplicate, with the first time's result | the same answer, with `Idempotent-Replayed: true` |
    /// | duplicate, without it | [`ProblemKind::AlreadyDone`] |
    /// | ignored | [`ProblemKind::Ignored`] |
    /// | the body's error | the error's own |
    /// | any other error | its [`ProblemKind`] |
    pub fn respond<T, R, E>(&self, result: Result<Outcome<T, R>, Error<E>>) -> Response
    where
        T: IntoResponse,
        R: Repeat<T>,
        E: IntoResponse,
    {
        self.respond_with(result, |value| value)
    }

    /// As [`respond`](Self::respond), for a value that `show` makes an answer of: `axum::Json` for one that serde can
    /// write, or `|created| (StatusCode::CREATED, Json(created))`.
    pub fn respond_with<T, R, E, A>(
        &self,
        result: Result<Outcome<T, R>, Error<E>>,
        show: impl FnOnce(T) -> A,
    ) -> Response
    where
        R: Repeat<T>,
        E: IntoResponse,
        A: IntoResponse,
    {
        match result {
            Ok(Outcome::First(value)) => show(value).into_response(),
            Ok(Outcome::Duplicate(seen)) => match seen.result.value() {
                Ok(value) => replayed(show(value).into_response()),
                Err(why) => problem::already_done(why.as_ref(), self).into_response(),
            },
            Ok(Outcome::Ignored(ignored)) => {
                // The reason is the application's text for its own log.
                let detail = match ignored.then {
                    Then::Retry => "It is not called for yet, and nothing was done. It may be sent again later.",
                    Then::Drop => "It is not called for, and nothing was done.",
                };
                Problem::new(ProblemKind::Ignored, detail, self).into_response()
            }
            Err(error) => match problem::of_unit(error, self) {
                Ok(problem) => problem.into_response(),
                Err(error) => error.into_response(),
            },
        }
    }
}

/// Marks an answer as one to a repeat.
pub(super) fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
