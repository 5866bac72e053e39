//! Problems (RFC 9457): every answer that is not the handler's own.

use super::{error::HttpError, response::REPLAYED, settings::HttpSettings};
use crate::{
    error::{Busy, Error, TokenError},
    key::KeyError,
    replay::Unavailable,
};
use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use std::{borrow::Cow, time::Duration};

/// The kinds of problem that a client can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// There is no key. 400.
    KeyMissing,
    /// The key cannot be read. 400.
    KeyMalformed,
    /// Nobody said who makes the request. 500: the application's authentication is not in front of the handler.
    NoPrincipal,
    /// The request's body is over the limit. 413.
    BodyTooLarge,
    /// The request's body broke off. 400.
    BodyUnreadable,
    /// A part of the handler's key is missing or blank in the request. 400.
    RequestIncomplete,
    /// The key was used before with another request. 422.
    PayloadMismatch,
    /// The same request is being worked on. 409, with `Retry-After`.
    InProgress,
    /// The request was done before, and its answer is not there any more, or was never kept. 200: it was done, and a client
    /// that reads a failure here would do it again under a new key.
    AlreadyDone,
    /// The action is not called for now. 409.
    Ignored,
    /// The one-time token is no token. 400.
    TokenMalformed,
    /// The one-time token was not issued here. 403.
    TokenUnknown,
    /// The one-time token was issued for something else. 403.
    TokenForeign,
    /// The one-time token expired. 410.
    TokenExpired,
    /// The database cannot be reached, or has no connection left. 503, with `Retry-After`.
    Unavailable,
    /// Whether the request was done is not known; the same request with the same key finds out. 503, with `Retry-After`.
    OutcomeUnknown,
    /// The server is set up wrong. 500.
    Misconfigured,
    /// The handler failed. 500.
    Failed,
}

impl ProblemKind {
    /// The status, unless [`HttpSettings::status`] says another.
    #[must_use]
    pub const fn default_status(self) -> StatusCode {
        match self {
            Self::KeyMissing
            | Self::KeyMalformed
            | Self::BodyUnreadable
            | Self::RequestIncomplete
            | Self::TokenMalformed => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::PayloadMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Self::InProgress | Self::Ignored => StatusCode::CONFLICT,
            Self::AlreadyDone => StatusCode::OK,
            Self::TokenUnknown | Self::TokenForeign => StatusCode::FORBIDDEN,
            Self::TokenExpired => StatusCode::GONE,
            Self::Unavailable | Self::OutcomeUnknown => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoPrincipal | Self::Misconfigured | Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The last piece of the problem's `type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyMalformed => "key-malformed",
            Self::NoPrincipal => "no-principal",
            Self::BodyTooLarge => "body-too-large",
            Self::BodyUnreadable => "body-unreadable",
            Self::RequestIncomplete => "request-incomplete",
            Self::PayloadMismatch => "payload-mismatch",
            Self::InProgress => "in-progress",
            Self::AlreadyDone => "already-done",
            Self::Ignored => "ignored",
            Self::TokenMalformed => "token-malformed",
            Self::TokenUnknown => "token-unknown",
            Self::TokenForeign => "token-foreign",
            Self::TokenExpired => "token-expired",
            Self::Unavailable => "unavailable",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::Misconfigured => "misconfigured",
            Self::Failed => "failed",
        }
    }

    /// The problem's `title`.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "The idempotency key is missing",
            Self::KeyMalformed => "The idempotency key cannot be read",
            Self::NoPrincipal => "The request has no principal",
            Self::BodyTooLarge => "The request's body is too large",
            Self::BodyUnreadable => "The request's body broke off",
            Self::RequestIncomplete => "The request lacks what identifies it",
            Self::PayloadMismatch => "The idempotency key was used for another request",
            Self::InProgress => "The request is being worked on",
            Self::AlreadyDone => "The request was done before",
            Self::Ignored => "The request is not called for",
            Self::TokenMalformed => "The token is malformed",
            Self::TokenUnknown => "The token is unknown",
            Self::TokenForeign => "The token is for something else",
            Self::TokenExpired => "The token has expired",
            Self::Unavailable => "The service is not available",
            Self::OutcomeUnknown => "Whether the request was done is not known",
            Self::Misconfigured => "The server is set up wrong",
            Self::Failed => "The request failed",
        }
    }

    const fn retries(self) -> bool {
        matches!(self, Self::InProgress | Self::Unavailable | Self::OutcomeUnknown)
    }
}

/// An answer as `application/problem+json`. It holds nothing of the request, the database or the server's insides.
#[derive(Clone, Debug)]
#[must_use = "a problem is an answer"]
pub struct Problem {
    kind: ProblemKind,
    status: StatusCode,
    type_uri: String,
    detail: Cow<'static, str>,
    retry_after: Option<u64>,
}

impl Problem {
    pub(super) fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>, settings: &HttpSettings) -> Self {
        let values = settings.values();
        Self {
            kind,
            status: settings.status_of(kind),
            type_uri: format!("{}{}", values.problem_base, kind.name()),
            detail: detail.into(),
            retry_after: kind.retries().then(|| seconds(values.retry_after)),
        }
    }

    fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(seconds(wait));
        self
    }

    /// What kind of problem.
    #[must_use]
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The answer's status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }
}

/// Whole seconds, rounded up, at least one: `Retry-After: 0` would be an invitation to hammer.
fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({
            "type": self.type_uri,
            "title": self.kind.title(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        if self.kind == ProblemKind::AlreadyDone {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

/// The problem of a repeat whose answer cannot be given.
pub(super) fn already_done(why: Option<&Unavailable>, settings: &HttpSettings) -> Problem {
    let detail = match why {
        None | Some(Unavailable::NotKept) => "It was done before, and its answer was not kept. Nothing ran again.",
        Some(Unavailable::TooLarge { .. }) => {
            "It was done before, and its answer was too large to be kept. Nothing ran again."
        }
        Some(_) => "It was done before, and its answer cannot be read any more. Nothing ran again.",
    };
    Problem::new(ProblemKind::AlreadyDone, detail, settings)
}

/// The problem of a repeat whose first answer had a body over the limit.
pub(super) fn too_large(status: u16, settings: &HttpSettings) -> Problem {
    let detail = format!(
        "It was done before, with status {status}, and its answer was too large to be kept. Nothing ran again."
    );
    Problem::new(ProblemKind::AlreadyDone, detail, settings)
}

/// The problem of a unit that came to nothing, or the body's own error.
pub(super) fn of_unit<E>(error: Error<E>, settings: &HttpSettings) -> Result<Problem, E> {
    let problem = |kind, detail: &'static str| Problem::new(kind, detail, settings);
    Ok(match error {
        Error::Body(error) => return Err(error),
        Error::Key(KeyError::Token(error)) | Error::Token(error) => of_token(&error, settings),
        Error::Key(
            KeyError::NoPart | KeyError::Scope { .. } | KeyError::ScopeShared { .. } | KeyError::Unwritten { .. },
        ) => problem(ProblemKind::Misconfigured, "The handler's key cannot be built. The server's log says why."),
        Error::Key(_) => {
            problem(ProblemKind::RequestIncomplete, "A value that identifies the request is missing or blank.")
        }
        Error::Busy(busy) => of_busy(&busy, settings),
        Error::Database(_) | Error::Redis(_) => {
            problem(ProblemKind::Unavailable, "Nothing was done. Send the same request again later.")
        }
        Error::CompletionUnknown(_) => {
            problem(ProblemKind::OutcomeUnknown, "It was done, and may be done again. The server's log says more.")
        }
        Error::Guard(error) if error.is_retryable() => {
            problem(ProblemKind::Unavailable, "Nothing was done. Send the same request again later.")
        }
        Error::CommitUnknown(_) => problem(
            ProblemKind::OutcomeUnknown,
            "It was done as a whole or not at all. Send the same request again, with the same key, to find out.",
        ),
        Error::PayloadMismatch(_) => problem(
            ProblemKind::PayloadMismatch,
            "The key belongs to a request that was another one. Use a new key for a new request.",
        ),
        Error::Configuration(_) => problem(ProblemKind::Misconfigured, "The server's log says what is wrong."),
        Error::TransactionEnded(_) | Error::Guard(_) | Error::LeaseLost(_) => {
            problem(ProblemKind::Failed, "The server's log says why.")
        }
    })
}

fn of_busy(busy: &Busy, settings: &HttpSettings) -> Problem {
    let detail = "The same request is being worked on. Send it again later, with the same key.";
    match busy {
        // Nobody knows whether this very request is running, so nothing is said of it.
        Busy::NoConnection(_) => {
            Problem::new(ProblemKind::Unavailable, "Nothing was done. Send the same request again later.", settings)
        }
        Busy::InProgress { retry_after } | Busy::InFlight { retry_after } => {
            Problem::new(ProblemKind::InProgress, detail, settings).retry_after(*retry_after)
        }
        Busy::Claimed(_) | Busy::Contended(_) => Problem::new(ProblemKind::InProgress, detail, settings),
    }
}

fn of_token(error: &TokenError, settings: &HttpSettings) -> Problem {
    let (kind, detail) = match error {
        TokenError::Malformed => (ProblemKind::TokenMalformed, "It has not the form of a token."),
        TokenError::Unknown => (ProblemKind::TokenUnknown, "It was not issued here. Load the form again."),
        TokenError::Foreign { .. } => (ProblemKind::TokenForeign, "It was issued for another form."),
        TokenError::Expired { .. } => (ProblemKind::TokenExpired, "It was not used in time. Load the form again."),
    };
    Problem::new(kind, detail, settings)
}

/// The problem of a request that did not come to a unit, or whose handler broke the rules.
pub(super) fn of_request(error: &HttpError, settings: &HttpSettings) -> Problem {
    let kind = match error {
        HttpError::KeyMissing { .. } => ProblemKind::KeyMissing,
        HttpError::KeySeveral { .. } | HttpError::KeyMalformed { .. } => ProblemKind::KeyMalformed,
        HttpError::NoPrincipal => ProblemKind::NoPrincipal,
        HttpError::BodyTooLarge { .. } => ProblemKind::BodyTooLarge,
        HttpError::BodyUnreadable => ProblemKind::BodyUnreadable,
        HttpError::NoUnit | HttpError::UnitTaken => ProblemKind::Misconfigured,
        HttpError::UnitKept | HttpError::Panicked | HttpError::AnswerBroken => ProblemKind::Failed,
    };
    // What is the server's own fault is told to its log.
    match kind {
        ProblemKind::NoPrincipal | ProblemKind::Misconfigured | ProblemKind::Failed => {
            Problem::new(kind, "The server's log says why.", settings)
        }
        _ => Problem::new(kind, format!("{error}."), settings),
    }
}
