//! What stands in the database and in logs: no secrets.

use crate::client::{Shown, post};
use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode},
    routing::post as on_post,
};
use idem_runtime::http::{HttpSettings, IdempotencyLayer, UnitConnection};
use idem_tests::logs::Listener;

const SECRET: &str = "c0ffee";

/// Headers of which none may be stored, and one that shows that the others could have been.
async fn talkative() -> (StatusCode, HeaderMap, &'static str) {
    let mut headers = HeaderMap::new();
    let names = [
        "set-cookie",
        "authorization",
        "proxy-authorization",
        "www-authenticate",
        "proxy-authenticate",
        "authentication-info",
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-listed",
        "x-configured",
        "x-sensitive",
    ];
    for name in names {
        let mut value = HeaderValue::from_static(if name == "connection" { "close, X-Listed" } else { SECRET });
        value.set_sensitive(name == "x-sensitive");
        headers.append(name, value);
    }
    headers.append("set-cookie", HeaderValue::from_static("second=c0ffee"));
    headers.insert("x-kept", HeaderValue::from_static("kept"));
    (StatusCode::CREATED, headers, "the body")
}

fn names(shown: &Shown) -> Vec<&str> {
    let mut names: Vec<&str> = shown.headers.keys().map(axum::http::HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

idem_tests::on_every_database! {
    given {
        /// The only record as a text, with the bytes of its result.
        async fn record(lab: &Lab) -> String {
            let text = |column: &str| match DIALECT {
                Dialect::Postgres => format!("convert_from({column}, 'utf8')"),
                Dialect::MySql => format!("CONVERT({column} USING utf8mb4)"),
                Dialect::Sqlite => format!("CAST({column} AS TEXT)"),
            };
            let key = if DIALECT == Dialect::MySql { text("action_key") } else { "action_key".to_owned() };
            let mut record = String::new();
            for column in [key, "COALESCE(message, '-')".to_owned(), text("result")] {
                let sql = format!("SELECT {column} FROM idem_records");
                let column: String = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&lab.pool).await.unwrap();
                record.push_str(&column);
                record.push('\n');
            }
            record
        }
    }

    async fn secret_headers_are_given_once_and_never_stored(lab: Lab) {
        let layer = IdempotencyLayer::new(lab.store.clone()).leave_out("x-configured".parse().unwrap());
        let router = Router::new().route("/talk", on_post(talkative)).layer(layer);
        let first = post("/talk").key("k").send(&router).await;
        assert_eq!(first.headers.get_all("set-cookie").iter().count(), 2);
        for name in ["authorization", "x-listed", "x-configured", "x-sensitive"] {
            assert_eq!(first.header(name), Some(SECRET), "{name}");
        }
        let record = record(&lab).await;
        assert!(record.contains("x-kept") && record.contains("the body"), "{record}");
        assert!(!record.contains(SECRET), "{record}");
        let again = post("/talk").key("k").send(&router).await;
        assert_eq!(names(&again), ["content-length", "content-type", "idempotent-replayed", "x-kept"]);
        assert_eq!((again.status, again.text()), (StatusCode::CREATED, "the body"));
    }

    async fn a_private_key_is_neither_stored_nor_logged(lab: Lab) {
        let value = "8e03978e-40d5-43dd-bc93-6894a57f9324";
        let layer = IdempotencyLayer::new(lab.store.clone()).settings(HttpSettings::new().private(true));
        let pay = async |mut db: UnitConnection<Conn>| credit(&mut db, "a", 10).await.unwrap();
        let router = Router::new().route("/pay", on_post(pay)).layer(layer);
        assert!(!post("/pay").key(value).send(&router).await.is_replayed());
        let record = record(&lab).await;
        assert!(record.contains("8e03#") && !record.contains("978e-40d5"), "{record}");
        assert!(post("/pay").key(value).send(&router).await.is_replayed());
        assert_eq!(lab.balance("a").await, 10);
    }
}

/// One event a request, with fixed fields; nothing more from HTTP where nothing is wrong.
#[test]
fn each_request_has_one_event_and_no_private_key_in_it() {
    let value = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = Listener::start();
    runtime.block_on(async {
        let store = idem_runtime::SqliteStore::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        let layer = IdempotencyLayer::new(store.clone()).settings(HttpSettings::new().private(true));
        let refused = async || StatusCode::NOT_FOUND;
        let failed = async || StatusCode::BAD_GATEWAY;
        let panics = async || -> StatusCode { panic!("the handler panics") };
        let router = Router::new()
            .route("/done", on_post(async || "done"))
            .route("/refused", on_post(refused))
            .route("/failed", on_post(failed))
            .route("/panics", on_post(panics))
            .layer(layer);
        let _ = listener.events();
        for (path, expected) in [
            ("/done", "first"),
            ("/done", "duplicate"),
            ("/refused", "ignored"),
            ("/failed", "failed"),
            ("/panics", "failed"),
        ] {
            let _ = post(path).key(value).send(&router).await;
            let events = listener.events();
            let outcomes: Vec<_> = events.iter().filter_map(|event| event.field("idem.outcome")).collect();
            assert_eq!(outcomes, [expected], "{path}: {events:?}");
            // A panic has a second line, which says what was answered.
            assert_eq!(events.len(), if path == "/panics" { 2 } else { 1 }, "{path}: {events:?}");
            if path == "/panics" {
                assert_eq!(events[0].field("reason"), Some("panic"), "{events:?}");
            }
            let text = format!("{events:?}");
            assert!(text.contains("8e03#") && !text.contains("978e-40d5"), "{text}");
        }
    });
}
