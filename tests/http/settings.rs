//! Every status can be another, and so can the addresses of problems.

use crate::client::post;
use axum::{
    Extension, Router,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post as on_post,
};
use idem_runtime::http::{HttpSettings, IdempotencyKey, ProblemKind};
use idem_runtime::{Busy, Error, KeyError, Outcome, TokenError};
use std::{convert::Infallible, time::Duration};

const KINDS: [ProblemKind; 18] = [
    ProblemKind::KeyMissing,
    ProblemKind::KeyMalformed,
    ProblemKind::NoPrincipal,
    ProblemKind::BodyTooLarge,
    ProblemKind::BodyUnreadable,
    ProblemKind::RequestIncomplete,
    ProblemKind::PayloadMismatch,
    ProblemKind::InProgress,
    ProblemKind::AlreadyDone,
    ProblemKind::Ignored,
    ProblemKind::TokenMalformed,
    ProblemKind::TokenUnknown,
    ProblemKind::TokenForeign,
    ProblemKind::TokenExpired,
    ProblemKind::Unavailable,
    ProblemKind::OutcomeUnknown,
    ProblemKind::Misconfigured,
    ProblemKind::Failed,
];

#[test]
fn each_kind_has_a_name_of_its_own_and_a_status_that_can_be_set() {
    let names: std::collections::BTreeSet<&str> = KINDS.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), KINDS.len());
    for kind in KINDS {
        let settings = HttpSettings::new();
        assert_eq!(settings.status_of(kind), kind.default_status());
        let settings = settings.status(kind, StatusCode::IM_A_TEAPOT).status(kind, StatusCode::LOCKED);
        for other in KINDS {
            let expected = if other == kind { StatusCode::LOCKED } else { other.default_status() };
            assert_eq!(settings.status_of(other), expected);
        }
    }
}

#[tokio::test]
async fn the_address_of_a_problem_is_the_applications() {
    async fn never(_: IdempotencyKey) {}
    let settings = HttpSettings::new()
        .problem_base("https://api.example.com/problems/")
        .status(ProblemKind::KeyMissing, StatusCode::PRECONDITION_REQUIRED);
    let router = Router::new().route("/orders", on_post(never)).layer(Extension(settings));
    let shown = post("/orders").send(&router).await;
    assert_eq!(shown.status, StatusCode::PRECONDITION_REQUIRED);
    let problem: serde_json::Value = serde_json::from_slice(&shown.body).unwrap();
    assert_eq!(problem["type"], "https://api.example.com/problems/key-missing");
    assert_eq!(problem["status"], 428);
}

type Result = std::result::Result<Outcome<String>, Error<Infallible>>;

#[tokio::test]
async fn each_error_has_its_status() {
    let missing = KeyError::Missing { part: "refund_no".to_owned() };
    let expected = [
        (Error::Token(TokenError::Malformed), StatusCode::BAD_REQUEST),
        (Error::Token(TokenError::Unknown), StatusCode::FORBIDDEN),
        (Error::Token(TokenError::Foreign { scope: "inside".to_owned() }), StatusCode::FORBIDDEN),
        (Error::Token(TokenError::Expired { at: std::time::SystemTime::UNIX_EPOCH }), StatusCode::GONE),
        (Error::Key(missing), StatusCode::BAD_REQUEST),
        (Error::Key(KeyError::NoPart), StatusCode::INTERNAL_SERVER_ERROR),
        (Error::Key(KeyError::Token(TokenError::Malformed)), StatusCode::BAD_REQUEST),
    ];
    for (error, status) in expected {
        let text = error.to_string();
        let response: Response = HttpSettings::new().respond(Result::Err(error));
        assert_eq!(response.status(), status, "{text}");
        let body = axum::body::to_bytes(response.into_response().into_body(), 4096).await.unwrap();
        let body = std::str::from_utf8(&body).unwrap();
        assert!(!body.contains("inside") && !body.contains("refund_no") && !body.contains("1970"), "{body}");
    }
}

/// In whole seconds, rounded up, and never 0, which would be an invitation to hammer.
#[tokio::test]
async fn a_retry_is_asked_for_after_whole_seconds() {
    let settings = HttpSettings::new().retry_after(Duration::from_millis(3200));
    let in_flight = |millis| Busy::InFlight { retry_after: Duration::from_millis(millis) };
    let expected = [
        (Busy::Claimed(Duration::from_secs(9)), StatusCode::CONFLICT, "4"),
        (Busy::Contended(9), StatusCode::CONFLICT, "4"),
        (in_flight(0), StatusCode::CONFLICT, "1"),
        (in_flight(1), StatusCode::CONFLICT, "1"),
        (in_flight(2001), StatusCode::CONFLICT, "3"),
        (Busy::InProgress { retry_after: Duration::from_secs(30) }, StatusCode::CONFLICT, "30"),
        (Busy::NoConnection(Duration::from_secs(9)), StatusCode::SERVICE_UNAVAILABLE, "4"),
    ];
    for (busy, status, wait) in expected {
        let response: Response = settings.respond(Result::Err(Error::Busy(busy)));
        assert_eq!((response.status(), &response.headers()["retry-after"]), (status, &wait.parse().unwrap()), "{busy}");
    }
}
