//! Which requests are one action: the principal, the method, the path and the key together.

use crate::client::{Call, post};
use axum::{
    Extension, Router,
    http::{Method, StatusCode},
    routing::any,
};
use idem_runtime::{
    Key,
    http::{HttpSettings, IdempotencyKey},
};
use std::collections::BTreeSet;

async fn show(key: IdempotencyKey) -> String {
    let debug = format!("{key:?}");
    let key = Key::scope("identity").part(&key).finish().unwrap();
    format!("{}\n{debug}", key.text())
}

async fn texts(call: Call, settings: HttpSettings) -> (String, String) {
    let inner = Router::new().route("/orders", any(show)).route("/orders/{id}/pay", any(show));
    let router = inner.clone().nest("/v2", inner).layer(Extension(settings));
    let shown = call.send(&router).await;
    assert_eq!(shown.status, StatusCode::OK);
    let (key, debug) = shown.text().split_once('\n').unwrap();
    (key.to_owned(), debug.to_owned())
}

async fn text(call: Call) -> String {
    texts(call, HttpSettings::new().anonymous(true)).await.0
}

/// Stored in users' databases: it never changes.
#[tokio::test]
async fn the_text_is_frozen() {
    assert_eq!(text(post("/orders").key("8e03-40d5")).await, "POST:/orders:alice:8e03-40d5");
    assert_eq!(text(post("/orders").key("8e03-40d5").by(None)).await, "POST:/orders:%none:8e03-40d5");
    assert_eq!(
        text(post("/v2/orders/7/pay?x=1").key("a:b/c").by(Some("a:b"))).await,
        "POST:/v2/orders/7/pay:a%3Ab:a%3Ab%2Fc"
    );
    let private = texts(post("/orders").key("8e03978e-40d5-43dd"), HttpSettings::new().private(true)).await.0;
    assert_eq!(private, "POST:/orders:alice:8e03#fc01b325224ca0cf932fada85014b0096e8ce33c4ec4d81f749bc401037a563c");
}

#[tokio::test]
async fn another_user_method_or_path_is_another_action() {
    let calls = [
        post("/orders").key("k"),
        post("/orders").key("K"),
        post("/orders").key("k").by(Some("bob")),
        post("/orders").key("k").by(None),
        post("/orders").key("k").by(Some("%none")),
        post("/orders").key("k").method(Method::PATCH),
        post("/v2/orders").key("k"),
        post("/orders/7/pay").key("k"),
        post("/orders/8/pay").key("k"),
        post("/orders/7%2Fpay/pay").key("k"),
        // What stands where must not matter.
        post("/orders").key("k:k").by(Some("a")),
        post("/orders").key("k").by(Some("a:k")),
        post("/orders").key("#k").by(Some("a")),
    ];
    let mut seen = BTreeSet::new();
    for call in calls {
        assert!(seen.insert(text(call.clone()).await), "{call:?}");
    }
    // With quotes or without it is one key, and the query is no part of the path.
    let one = text(post("/orders").key("k")).await;
    assert_eq!(text(post("/orders?page=2").header("idempotency-key", "k")).await, one);
}

#[tokio::test]
async fn a_long_key_stays_different_from_others() {
    let (one, other) = (format!("{}1", "k".repeat(199)), format!("{}2", "k".repeat(199)));
    let principal = "p".repeat(300);
    let one = text(post("/orders").key(&one).by(Some(&principal))).await;
    let other = text(post("/orders").key(&other).by(Some(&principal))).await;
    assert_ne!(one, other);
    assert!(one.len() <= 255 && other.len() <= 255);
}

#[tokio::test]
async fn a_private_key_is_never_shown_whole() {
    let value = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    let private = HttpSettings::new().private(true);
    let (key, debug) = texts(post("/orders").key(value), private.clone()).await;
    for text in [&key, &debug] {
        assert!(text.contains("8e03") && !text.contains("978e-40d5"), "{text}");
    }
    // Of a short one not even the beginning.
    let (key, debug) = texts(post("/orders").key("abc").by(Some("x")), private.clone()).await;
    for text in [&key, &debug] {
        assert!(!text.contains("abc") && !text.contains("\"a"), "{text}");
    }
    let (other, _) = texts(post("/orders").key("8e03978e-40d5-43dd-bc93-6894a57f9325"), private).await;
    assert_ne!(key, other);
    let (_, open) = texts(post("/orders").key(value), HttpSettings::new()).await;
    assert!(open.contains(value), "{open}");
}
