//! Annotated handlers behind routes.

use crate::client::{Call, post};
use axum::{
    Extension, Json, Router,
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post as on_post,
};
use idem_runtime::{
    Decision, Key, KeyError,
    http::{Answer, HttpSettings, IdempotencyKey},
    idempotent,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Deserialize)]
struct Order {
    order_no: String,
    amount: i64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Paid {
    amount: i64,
}

/// How a body fails: with a status of its own.
#[derive(Debug)]
struct Failure(StatusCode);

impl From<sqlx::Error> for Failure {
    fn from(_: sqlx::Error) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, "the handler's own words").into_response()
    }
}

fn pay(key: &str, amount: i64) -> Call {
    post("/pay").key(key).json(&format!(r#"{{"order_no":"A1","amount":{amount}}}"#))
}

idem_tests::on_every_database! {
    given {
        /// Fails with 500 for 500, with 402 for 402, panics for 13, and declines what is not positive.
        async fn effect(db: &mut Conn, amount: i64) -> Result<(), Failure> {
            credit(db, "a", amount).await?;
            match amount {
                500 => Err(Failure(StatusCode::INTERNAL_SERVER_ERROR)),
                402 => Err(Failure(StatusCode::PAYMENT_REQUIRED)),
                13 => panic!("the body panics"),
                _ => Ok(()),
            }
        }

        #[idempotent(key = id, payload = order.amount, store = db, scope = "http.pay", replay)]
        async fn paying(db: &mut Conn, id: &IdempotencyKey, order: &Order) -> Result<Paid, Failure> {
            effect(db, order.amount).await?;
            Ok(Paid { amount: order.amount })
        }

        #[idempotent(key = id, store = db, scope = "http.answer", replay(limit = 1000))]
        async fn answering(db: &mut Conn, id: &IdempotencyKey, order: &Order) -> Result<Answer, Failure> {
            effect(db, order.amount).await?;
            let body = "x".repeat(usize::try_from(order.amount).unwrap_or(0));
            Ok(Answer::new(StatusCode::CREATED, body)
                .header(header::LOCATION, HeaderValue::from_static("/orders/7"))
                .header(HeaderName::from_static("x-twice"), HeaderValue::from_static("one"))
                .header(HeaderName::from_static("x-twice"), HeaderValue::from_static("two"))
                .header(header::SET_COOKIE, HeaderValue::from_static("session=secret")))
        }

        /// The key that the business has; no result is kept.
        #[idempotent(key = order.order_no, store = db, scope = "http.plain")]
        async fn plain(db: &mut Conn, order: &Order) -> Result<&'static str, Failure> {
            effect(db, order.amount).await?;
            Ok("done")
        }

        #[idempotent(key = id, store = db, scope = "http.declines", declines)]
        async fn declining(db: &mut Conn, id: &IdempotencyKey, order: &Order) -> Result<Decision<String>, Failure> {
            effect(db, order.amount).await?;
            Ok(if order.amount > 10 { Decision::Done("done".to_owned()) } else { Decision::retry("internal words") })
        }

        async fn to_pay(State(db): State<Db>, id: IdempotencyKey, Json(order): Json<Order>) -> Response {
            id.respond_with(paying(&db, &id, &order).await, |paid| (StatusCode::CREATED, Json(paid)))
        }

        async fn to_answer(State(db): State<Db>, id: IdempotencyKey, Json(order): Json<Order>) -> Response {
            id.respond(answering(&db, &id, &order).await)
        }

        async fn to_plain(State(db): State<Db>, Json(order): Json<Order>) -> Response {
            HttpSettings::new().respond(plain(&db, &order).await)
        }

        async fn to_decline(State(db): State<Db>, id: IdempotencyKey, Json(order): Json<Order>) -> Response {
            id.respond(declining(&db, &id, &order).await)
        }

        fn busy_key() -> Result<Key, KeyError> {
            Key::scope("http.busy").part("one").finish()
        }

        async fn busy(Extension(db): Extension<Db>) -> Response {
            let result = db.once(busy_key(), async |db| credit(db, "a", 10).await.map_err(Failure::from)).await;
            HttpSettings::new().respond(result)
        }

        fn router(lab: &Lab) -> Router {
            Router::new()
                .route("/pay", on_post(to_pay).patch(to_pay))
                .route("/pay/again", on_post(to_pay))
                .route("/answer", on_post(to_answer))
                .route("/plain", on_post(to_plain))
                .route("/decline", on_post(to_decline))
                .with_state(lab.store.clone())
        }
    }

    async fn a_repeat_gets_the_same_answer_and_it_is_marked(lab: Lab) {
        let router = router(&lab);
        let first = pay("k", 10).send(&router).await;
        assert_eq!((first.status, first.text()), (StatusCode::CREATED, r#"{"amount":10}"#));
        assert!(!first.is_replayed());
        let mut again = pay("k", 10).send(&router).await;
        assert!(again.is_replayed());
        again.headers.remove("idempotent-replayed");
        assert_eq!(again, first);
        assert_eq!(lab.balance("a").await, 10);
    }

    async fn a_whole_answer_is_replayed_without_its_secrets(lab: Lab) {
        let router = router(&lab);
        let call = || post("/answer").key("k").json(r#"{"order_no":"A1","amount":10}"#);
        let first = call().send(&router).await;
        assert_eq!(first.header("set-cookie"), Some("session=secret"));
        let again = call().send(&router).await;
        assert_eq!((again.status, again.text()), (StatusCode::CREATED, "xxxxxxxxxx"));
        assert_eq!(again.header("location"), Some("/orders/7"));
        assert_eq!(again.headers.get_all("x-twice").iter().collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(again.header("set-cookie"), None);
        let secrets = match DIALECT {
            Dialect::Postgres => "SELECT count(*) FROM idem_records WHERE position('secret'::bytea IN result) > 0",
            _ => "SELECT count(*) FROM idem_records WHERE instr(result, 'secret') > 0",
        };
        assert_eq!(lab.number(secrets).await, 0);
        assert_eq!(lab.number(&secrets.replace("'secret'", "'orders/7'")).await, 1);
        assert_eq!(lab.balance("a").await, 10);
    }

    /// C38: the same key with another payload.
    async fn another_payload_is_refused(lab: Lab) {
        let router = router(&lab);
        assert_eq!(pay("k", 10).send(&router).await.status, StatusCode::CREATED);
        let refused = pay("k", 20).send(&router).await;
        assert_eq!((refused.status, &*refused.problem()), (StatusCode::UNPROCESSABLE_ENTITY, "payload-mismatch"));
        // Equal in meaning, in other bytes.
        let same = post("/pay").key("k").json(r#" { "amount" : 10, "note": "new", "order_no" : "A1" } "#).send(&router).await;
        assert!(same.is_replayed());
        assert_eq!(lab.balance("a").await, 10);
    }

    async fn another_user_method_or_route_is_another_action(lab: Lab) {
        let router = router(&lab);
        let calls = [
            pay("k", 10),
            pay("k", 10).by(Some("bob")),
            pay("k", 10).method(axum::http::Method::PATCH),
            post("/pay/again").key("k").json(r#"{"order_no":"A1","amount":10}"#),
        ];
        for call in &calls {
            assert!(!call.clone().send(&router).await.is_replayed(), "{call:?}");
        }
        for call in calls {
            assert!(call.clone().send(&router).await.is_replayed(), "{call:?}");
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (40, 4));
    }

    async fn a_bodys_error_is_its_own_answer_and_a_repeat_runs(lab: Lab) {
        let router = router(&lab);
        for amount in [500, 402] {
            for _ in 0..2 {
                let failed = pay("k", amount).send(&router).await;
                assert_eq!((i64::from(failed.status.as_u16()), failed.text()), (amount, "the handler's own words"));
            }
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(pay("k", 10).send(&router).await.status, StatusCode::CREATED);
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
    }

    /// Without a result the repeat is told that it was done: a failure would make the client do it again under a new key.
    async fn a_repeat_without_a_result_is_told_so(lab: Lab) {
        let router = router(&lab);
        let call = || post("/plain").json(r#"{"order_no":"A1","amount":10}"#);
        assert_eq!(call().send(&router).await.text(), "done");
        let again = call().send(&router).await;
        assert_eq!((again.status, &*again.problem()), (StatusCode::OK, "already-done"));
        assert!(again.is_replayed());
        // One whose result was too large to be kept.
        let large = || post("/answer").key("k").json(r#"{"order_no":"A1","amount":2000}"#);
        assert_eq!(large().send(&router).await.body.len(), 2000);
        assert_eq!(large().send(&router).await.problem(), "already-done");
        assert_eq!(lab.balance("a").await, 2010);
    }

    async fn what_is_not_called_for_has_a_status_and_leaves_nothing(lab: Lab) {
        let router = router(&lab);
        let call = |amount: i64| post("/decline").key("k").json(&format!(r#"{{"order_no":"A1","amount":{amount}}}"#));
        let ignored = call(1).send(&router).await;
        assert_eq!((ignored.status, &*ignored.problem()), (StatusCode::CONFLICT, "ignored"));
        assert!(!ignored.text().contains("internal words"));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(call(20).send(&router).await.text(), "done");
        assert_eq!(lab.balance("a").await, 20);
    }

    /// C29: a lost race is no failure of the server.
    async fn fifty_at_once_are_one_effect_and_no_failure(lab: Lab) {
        let router = router(&lab);
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let router = router.clone();
            calls.spawn(async move { pay("k", 10).send(&router).await });
        }
        let (mut first, mut replayed) = (0, 0);
        for shown in calls.join_all().await {
            match shown.status {
                StatusCode::CREATED if shown.is_replayed() => replayed += 1,
                StatusCode::CREATED => first += 1,
                StatusCode::CONFLICT => assert!(shown.problem() == "in-progress" && shown.retry_after() >= Some(1)),
                status => panic!("{status}: {shown:?}"),
            }
        }
        assert_eq!(first, 1);
        assert!(replayed > 0);
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
        assert!(pay("k", 10).send(&router).await.is_replayed());
    }

    async fn while_another_runs_the_answer_is_409_with_a_time(lab: Lab) {
        // Another process, as it were.
        let hasty = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(1))).await;
        let router = Router::new().route("/busy", on_post(busy)).layer(Extension(hasty));
        let outcome = lab.store.once(busy_key(), async |db| {
            credit(db, "a", 10).await?;
            let shown = post("/busy").send(&router).await;
            assert_eq!((shown.status, &*shown.problem()), (StatusCode::CONFLICT, "in-progress"));
            assert!(shown.retry_after() >= Some(1));
            Ok::<_, sqlx::Error>(())
        }).await;
        assert!(outcome.unwrap().is_first());
        assert_eq!(lab.balance("a").await, 10);
    }

    async fn a_store_that_is_not_set_up_is_the_servers_fault(lab: Lab) {
        let bare = lab.other_store(Lab::builder().table("nothing_here")).await;
        let router = Router::new().route("/pay", on_post(to_pay)).with_state(bare);
        let shown = pay("k", 10).send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "misconfigured"));
        assert!(!shown.text().contains("nothing_here") && !shown.text().contains("CREATE"), "{}", shown.text());
    }
}
