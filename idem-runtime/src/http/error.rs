use super::{
    header::KeyFault,
    problem::{self, Problem},
    settings::HttpSettings,
};
use axum::response::{IntoResponse, Response};
use std::fmt;
use tracing::error;

/// What can go wrong with a request around its unit. (What goes wrong inside it is [`Error`](crate::Error).)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The header is missing.
    #[error("the header `{header}` is missing: send a key that is new for each request and the same for its repeats")]
    KeyMissing {
        /// The header.
        header: String,
    },
    /// The header is there more than once.
    #[error("the header `{header}` is there more than once")]
    KeySeveral {
        /// The header.
        header: String,
    },
    /// The header's value is no key.
    #[error("the header `{header}` cannot be read: {fault}")]
    KeyMalformed {
        /// The header.
        header: String,
        /// What is wrong with it.
        fault: KeyFault,
    },
    /// There is no [`Principal`](super::Principal) in the request's extensions, or a blank one.
    #[error(
        "the request has no `idem_runtime::http::Principal` extension, so keys of different users could not be told apart: \
         let the authentication in front of this route insert one, or allow `HttpSettings::anonymous`"
    )]
    NoPrincipal,
    /// The body is over the limit.
    #[error("the request's body may have {limit} bytes")]
    BodyTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The body broke off.
    #[error("the request's body broke off")]
    BodyUnreadable,
    /// A handler asked for the unit's connection, and no unit of this database is there.
    #[error(
        "there is no unit whose connection a handler could have: put an `IdempotencyLayer` over a store of the same \
         database around the route, and ask in requests with a method that it guards"
    )]
    NoUnit,
    /// A handler asked for the unit's connection while it had it.
    #[error(
        "the unit's connection is in use: one extractor `UnitConnection` a handler, dropped before the next is made"
    )]
    UnitTaken,
    /// A handler kept the unit's connection beyond its answer: in a task, or in the answer's stream.
    #[error(
        "the handler kept the unit's connection beyond its answer (in a task of its own, or in the answer's stream), so \
         the unit could not be committed and is rolled back"
    )]
    UnitKept,
    /// The handler panicked.
    #[error("the handler panicked; the unit is rolled back")]
    Panicked,
    /// The answer's body failed.
    #[error("the body of the handler's answer failed; the unit is rolled back")]
    AnswerBroken,
}

impl HttpError {
    /// The problem to answer with.
    pub fn problem(&self, settings: &HttpSettings) -> Problem {
        problem::of_request(self, settings)
    }

    /// The answer, and a line in the log where the server is at fault.
    pub(super) fn answer(&self, settings: &HttpSettings) -> Response {
        let problem = self.problem(settings);
        if matches!(
            self,
            Self::NoPrincipal | Self::NoUnit | Self::UnitTaken | Self::UnitKept | Self::Panicked | Self::AnswerBroken
        ) {
            error!(target: "idem", { error = %self, status = problem.status().as_u16() }, "a fault of the server");
        }
        problem.into_response()
    }
}

/// What an extractor of this module answers when it refuses.
#[derive(Clone, Debug)]
pub struct Rejection {
    error: HttpError,
    settings: HttpSettings,
}

impl Rejection {
    pub(super) const fn new(error: HttpError, settings: HttpSettings) -> Self {
        Self { error, settings }
    }

    /// Why.
    #[must_use]
    pub const fn error(&self) -> &HttpError {
        &self.error
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Rejection {}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        self.error.answer(&self.settings)
    }
}
