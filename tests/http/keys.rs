//! What a client may send as its key.

use crate::client::{Call, post};
use axum::{Extension, Router, http::StatusCode, routing::post as on_post};
use idem_runtime::http::{HttpSettings, IdempotencyKey};

async fn show(key: IdempotencyKey) -> String {
    format!("{}|{}", key.value(), key.principal().unwrap_or("nobody"))
}

fn router(settings: HttpSettings) -> Router {
    Router::new().route("/orders", on_post(show)).layer(Extension(settings))
}

async fn taken(call: Call, settings: HttpSettings) -> Result<String, (StatusCode, String)> {
    let shown = call.send(&router(settings)).await;
    if shown.status == StatusCode::OK { Ok(shown.text().to_owned()) } else { Err((shown.status, shown.problem())) }
}

fn malformed() -> Result<String, (StatusCode, String)> {
    Err((StatusCode::BAD_REQUEST, "key-malformed".to_owned()))
}

async fn with(value: impl Into<Vec<u8>>) -> Result<String, (StatusCode, String)> {
    taken(post("/orders").header("Idempotency-Key", value), HttpSettings::new()).await
}

#[tokio::test]
async fn a_key_may_stand_in_quotes_or_not() {
    for value in ["\"8e03978e-40d5\"", "8e03978e-40d5", "  \"8e03978e-40d5\"  "] {
        assert_eq!(with(value).await, Ok("8e03978e-40d5|alice".to_owned()), "{value}");
    }
    let strict = HttpSettings::new().bare(false);
    assert_eq!(taken(post("/orders").header("idempotency-key", "8e03"), strict.clone()).await, malformed());
    assert_eq!(taken(post("/orders").key("8e03"), strict).await, Ok("8e03|alice".to_owned()));
}

#[tokio::test]
async fn what_is_no_key_is_refused() {
    let values = [
        "",
        "\"\"",
        "\"   \"",
        "\"a",
        "a\"",
        "\"a\"b",
        "\"a\";x=1",
        "\"a\", \"b\"",
        "a, b",
        "a b",
        "\"a\\\"b\"",
        "\"a\tb\"",
    ];
    for value in values {
        assert_eq!(with(value).await, malformed(), "{value}");
    }
    for value in ["\"schlüssel\"", "订单", "\"\u{1F600}\""] {
        assert_eq!(with(value).await, malformed(), "{value}");
    }
    assert_eq!(with(&b"\"\xff\""[..]).await, malformed());
}

#[tokio::test]
async fn a_key_has_a_length() {
    let long = "k".repeat(200);
    assert_eq!(with(format!("\"{long}\"")).await, Ok(format!("{long}|alice")));
    assert_eq!(with(format!("\"{long}k\"")).await, malformed());
    assert_eq!(with(vec![b'k'; 1_000_000]).await, malformed());
    let settings = HttpSettings::new().lengths(16..=36);
    assert_eq!(taken(post("/orders").key("0123456789abcde"), settings.clone()).await, malformed());
    assert_eq!(taken(post("/orders").key("0123456789abcdef"), settings).await, Ok("0123456789abcdef|alice".to_owned()));
    // A limit beyond reason is no limit.
    let settings = HttpSettings::new().lengths(0..=usize::MAX);
    assert_eq!(taken(post("/orders").key(""), settings.clone()).await, malformed());
    assert_eq!(taken(post("/orders").key(&"k".repeat(5000)), settings).await, malformed());
}

#[tokio::test]
async fn there_must_be_one_key_and_one_only() {
    let missing = taken(post("/orders"), HttpSettings::new()).await;
    assert_eq!(missing, Err((StatusCode::BAD_REQUEST, "key-missing".to_owned())));
    assert_eq!(taken(post("/orders").key("a").key("a"), HttpSettings::new()).await, malformed());
    let other = HttpSettings::new().header("x-request-key".parse().unwrap());
    assert_eq!(taken(post("/orders").header("X-Request-Key", "a"), other).await, Ok("a|alice".to_owned()));
}

#[tokio::test]
async fn a_request_without_a_principal_is_refused_unless_anonymous_ones_are_taken() {
    for nobody in [None, Some(""), Some(" ")] {
        let refused = taken(post("/orders").key("a").by(nobody), HttpSettings::new()).await;
        assert_eq!(refused, Err((StatusCode::INTERNAL_SERVER_ERROR, "no-principal".to_owned())), "{nobody:?}");
    }
    let anonymous = HttpSettings::new().anonymous(true);
    assert_eq!(taken(post("/orders").key("a").by(None), anonymous.clone()).await, Ok("a|nobody".to_owned()));
    // A blank principal is a fault, and no anonymous request.
    let blank = taken(post("/orders").key("a").by(Some("")), anonymous).await;
    assert_eq!(blank, Err((StatusCode::INTERNAL_SERVER_ERROR, "no-principal".to_owned())));
}

/// What a client sent is not sent back, and the server's insides are nobody's business.
#[tokio::test]
async fn a_problem_shows_nothing_of_the_request() {
    let shown = post("/orders").header("idempotency-key", "se cret").send(&router(HttpSettings::new())).await;
    assert_eq!(shown.problem(), "key-malformed");
    assert!(!shown.text().contains("cret"), "{}", shown.text());
    let shown = post("/orders").key("secret").by(None).send(&router(HttpSettings::new())).await;
    assert!(!shown.text().contains("secret") && !shown.text().contains("Principal"), "{}", shown.text());
}
