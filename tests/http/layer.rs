//! The layer for plain handlers.

use crate::client::{Call, post};
use axum::{
    Extension, Json, Router,
    body::Body,
    extract::Path,
    http::{HeaderMap, HeaderValue, Method, StatusCode},
    response::{IntoResponse, Response},
    routing::{any, get, post as on_post},
};
use idem_runtime::http::{BodyComparison, End, HttpSettings, IdempotencyKey, IdempotencyLayer, UnitConnection};
use std::time::Duration;

fn server_error<E>(_: E) -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

fn pay(key: &str, amount: &str) -> Call {
    post("/pay").key(key).json(amount)
}

idem_tests::on_every_database! {
    given {
        async fn paid(mut db: UnitConnection<Conn>, Json(amount): Json<i64>) -> Result<Response, StatusCode> {
            credit(&mut db, "a", amount).await.map_err(server_error)?;
            let mut headers = HeaderMap::new();
            headers.insert("location", HeaderValue::from_static("/payments/7"));
            headers.append("x-twice", HeaderValue::from_static("one"));
            headers.append("x-twice", HeaderValue::from_static("two"));
            headers.insert("x-bytes", HeaderValue::from_bytes(b"\xe9").unwrap());
            Ok((StatusCode::CREATED, headers, format!("paid {amount}")).into_response())
        }

        /// Adds ten, then answers with the status in the path.
        async fn with_status(Path(status): Path<u16>, mut db: UnitConnection<Conn>) -> Response {
            credit(&mut db, "a", 10).await.unwrap();
            (StatusCode::from_u16(status).unwrap(), "the handler's own words").into_response()
        }

        /// A refusal that is a result.
        async fn settled(mut db: UnitConnection<Conn>) -> Response {
            credit(&mut db, "a", 10).await.unwrap();
            (StatusCode::PAYMENT_REQUIRED, Extension(End::Commit), "declined").into_response()
        }

        /// What a success must not keep, and a failure must not, whatever it says.
        async fn unsettled(Path(status): Path<u16>, mut db: UnitConnection<Conn>) -> Response {
            credit(&mut db, "a", 10).await.unwrap();
            let end = if status == 200 { End::RollBack } else { End::Commit };
            (StatusCode::from_u16(status).unwrap(), Extension(end)).into_response()
        }

        async fn panicking(mut db: UnitConnection<Conn>) {
            credit(&mut db, "a", 10).await.unwrap();
            panic!("the handler panics");
        }

        async fn large(mut db: UnitConnection<Conn>) -> Response {
            credit(&mut db, "a", 10).await.unwrap();
            (StatusCode::CREATED, "x".repeat(100_000)).into_response()
        }

        fn layer(lab: &Lab) -> IdempotencyLayer<Conn> {
            IdempotencyLayer::new(lab.store.clone())
        }

        fn router(layer: IdempotencyLayer<Conn>) -> Router {
            Router::new()
                .route("/pay", on_post(paid).patch(paid).put(paid))
                .route("/pay/again", on_post(paid))
                .route("/status/{status}", any(with_status))
                .route("/settled", on_post(settled))
                .route("/unsettled/{status}", on_post(unsettled))
                .route("/panic", on_post(panicking))
                .route("/large", on_post(large))
                .route("/look", get(|| async { "looked" }))
                .layer(layer)
        }
    }

    async fn a_repeat_gets_status_headers_and_body(lab: Lab) {
        let router = router(layer(&lab));
        let first = pay("k", "10").send(&router).await;
        assert_eq!((first.status, first.text()), (StatusCode::CREATED, "paid 10"));
        assert!(!first.is_replayed());
        let mut again = pay("k", "10").send(&router).await;
        assert!(again.is_replayed());
        again.headers.remove("idempotent-replayed");
        assert_eq!(again, first);
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
    }

    /// C38, after the first one is done: another body, another query; and what the comparison does not see.
    async fn another_request_under_the_key_is_refused(lab: Lab) {
        let plain = router(layer(&lab));
        assert_eq!(pay("k", "10").send(&plain).await.status, StatusCode::CREATED);
        for other in [pay("k", "20"), pay("k", " 10"), pay("k", "1e1"), post("/pay?currency=EUR").key("k").json("10")] {
            let refused = other.send(&plain).await;
            assert_eq!((refused.status, &*refused.problem()), (StatusCode::UNPROCESSABLE_ENTITY, "payload-mismatch"));
        }
        let json = router(layer(&lab).scope("json").compare(BodyComparison::Json));
        assert!(!pay("k", "10").send(&json).await.is_replayed());
        for same in [" 10\n", "10.0", "1e1"] {
            assert!(pay("k", same).send(&json).await.is_replayed(), "{same}");
        }
        for other in ["20", "\"10\"", "10 10", "[10]"] {
            assert_eq!(pay("k", other).send(&json).await.problem(), "payload-mismatch", "{other}");
        }
        // What does not say that it is JSON is bytes.
        assert_eq!(post("/pay").key("k").body("10").send(&json).await.problem(), "payload-mismatch");
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 2));
    }

    async fn another_user_method_or_path_is_another_action(lab: Lab) {
        let router = router(layer(&lab));
        let calls = [
            pay("k", "10"),
            pay("k", "10").by(Some("bob")),
            pay("k", "10").method(Method::PATCH),
            pay("k", "10").method(Method::PUT),
            post("/pay/again").key("k").json("10"),
            post("/status/200").key("k"),
            post("/status/201").key("k"),
        ];
        for (number, call) in calls.iter().enumerate() {
            assert!(!call.clone().send(&router).await.is_replayed(), "{call:?}");
            assert_eq!(lab.claims().await, i64::try_from(number).unwrap() + 1);
        }
        assert!(calls[6].clone().send(&router).await.is_replayed());
        assert_eq!(lab.balance("a").await, 70);
    }

    async fn a_failure_is_never_stored_and_a_repeat_runs(lab: Lab) {
        let router = router(layer(&lab));
        for path in ["/status/500", "/status/503", "/unsettled/500", "/unsettled/200"] {
            for _ in 0..2 {
                let shown = post(path).key("k").send(&router).await;
                assert!(!shown.is_replayed() && path.ends_with(shown.status.as_str()), "{shown:?}");
            }
        }
        for _ in 0..2 {
            let shown = post("/panic").key("k").send(&router).await;
            assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "failed"));
            assert!(!shown.text().contains("the handler panics"));
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        // The store is none the worse for it.
        assert_eq!(pay("k", "10").send(&router).await.status, StatusCode::CREATED);
        assert_eq!(lab.balance("a").await, 10);
    }

    async fn a_refusal_is_rolled_back_unless_it_is_to_be_kept(lab: Lab) {
        let router_of = |keep| router(layer(&lab).scope(if keep { "keeps" } else { "default" }).keep_client_errors(keep));
        let default = router_of(false);
        for _ in 0..2 {
            let shown = post("/status/404").key("k").send(&default).await;
            assert_eq!((shown.status, shown.text()), (StatusCode::NOT_FOUND, "the handler's own words"));
            assert!(!shown.is_replayed());
        }
        // An extractor's refusal, too: the corrected request may use the key again.
        assert_eq!(pay("k", "\"ten\"").send(&default).await.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(pay("k", "10").send(&default).await.status, StatusCode::CREATED);
        // A single answer that says so.
        for replayed in [false, true] {
            let shown = post("/settled").key("k").send(&default).await;
            assert_eq!((shown.status, shown.text(), shown.is_replayed()), (StatusCode::PAYMENT_REQUIRED, "declined", replayed));
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 2));
        let keeping = router_of(true);
        for replayed in [false, true] {
            let shown = post("/status/404").key("k").send(&keeping).await;
            assert_eq!((shown.status, shown.is_replayed()), (StatusCode::NOT_FOUND, replayed));
        }
        assert!(!post("/status/500").key("k").send(&keeping).await.is_replayed());
        assert!(!post("/status/500").key("k").send(&keeping).await.is_replayed());
        assert_eq!((lab.balance("a").await, lab.claims().await), (30, 3));
    }

    async fn what_needs_no_key_passes_through(lab: Lab) {
        let router = router(layer(&lab));
        assert_eq!(post("/look").method(Method::GET).send(&router).await.text(), "looked");
        assert_eq!(post("/look").method(Method::HEAD).send(&router).await.status, StatusCode::OK);
        assert_eq!(post("/pay").method(Method::OPTIONS).send(&router).await.status, StatusCode::METHOD_NOT_ALLOWED);
        // No unit, no connection.
        let shown = post("/status/200").method(Method::GET).key("k").send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "misconfigured"));
        assert_eq!(lab.claims().await, 0);
    }

    async fn a_request_that_cannot_be_told_from_others_is_refused_before_all(lab: Lab) {
        let router = router(layer(&lab));
        assert_eq!(post("/pay").json("10").send(&router).await.problem(), "key-missing");
        assert_eq!(pay("k\tk", "10").send(&router).await.problem(), "key-malformed");
        assert_eq!(pay("k", "10").by(None).send(&router).await.problem(), "no-principal");
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
    }

    /// Settings are the layer's own, else the application's, and the handler has the same.
    async fn the_applications_settings_hold_behind_the_layer(lab: Lab) {
        let anonymous = HttpSettings::new().anonymous(true);
        let shows = async |key: IdempotencyKey| key.principal().unwrap_or("nobody").to_owned();
        let with = |layer| Router::new().route("/show", on_post(shows)).layer(layer).layer(Extension(anonymous.clone()));
        let router = with(layer(&lab));
        assert_eq!(post("/show").key("k").by(None).send(&router).await.text(), "nobody");
        let router = with(layer(&lab).settings(HttpSettings::new()));
        assert_eq!(post("/show").key("k").by(None).send(&router).await.problem(), "no-principal");
        let router = Router::new().route("/show", on_post(shows)).layer(layer(&lab).settings(anonymous.clone()));
        assert_eq!(post("/show").key("other").by(None).send(&router).await.text(), "nobody");
    }

    async fn bodies_are_capped(lab: Lab) {
        let router = router(layer(&lab).body_limit(10).settings(HttpSettings::new().anonymous(true)));
        let shown = pay("k", "10000000000").by(None).send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let shown = pay("k", "1000000000").by(None).send(&router).await;
        assert_eq!(shown.status, StatusCode::CREATED);
        assert_eq!(lab.balance("a").await, 1_000_000_000);
    }

    async fn an_answer_over_the_limit_is_given_once_and_then_told_of(lab: Lab) {
        let small = router(layer(&lab));
        let first = post("/large").key("k").send(&small).await;
        assert_eq!((first.status, first.body.len()), (StatusCode::CREATED, 100_000));
        let again = post("/large").key("k").send(&small).await;
        assert_eq!((again.status, &*again.problem()), (StatusCode::OK, "already-done"));
        assert!(again.text().contains("201") && again.is_replayed());
        let wide = router(layer(&lab).scope("wide").answer_limit(100_000));
        for replayed in [false, true] {
            let shown = post("/large").key("k").send(&wide).await;
            assert_eq!((shown.body.len(), shown.is_replayed()), (100_000, replayed));
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 2));
    }

    /// C29: a lost race is no failure of the server.
    async fn fifty_at_once_are_one_effect_and_no_failure(lab: Lab) {
        let router = router(layer(&lab));
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let router = router.clone();
            calls.spawn(async move { pay("k", "10").send(&router).await });
        }
        let mut first = 0;
        for shown in calls.join_all().await {
            match shown.status {
                StatusCode::CREATED => first += i32::from(!shown.is_replayed()),
                StatusCode::CONFLICT => assert!(shown.problem() == "in-progress" && shown.retry_after() >= Some(1)),
                status => panic!("{status}: {shown:?}"),
            }
        }
        assert_eq!(first, 1);
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
        assert!(pay("k", "10").send(&router).await.is_replayed());
    }

    /// C38, while the first one runs: the second waits for it, and is then told what it should be told.
    async fn while_the_first_runs_the_second_waits_and_is_then_compared(lab: Lab) {
        let (entered, go_on) = (std::sync::Arc::new(tokio::sync::Notify::new()), std::sync::Arc::new(tokio::sync::Notify::new()));
        let slow = {
            let (entered, go_on) = (entered.clone(), go_on.clone());
            async move |mut db: UnitConnection<Conn>, _: Body| {
                credit(&mut db, "a", 10).await.unwrap();
                entered.notify_one();
                go_on.notified().await;
                "slow"
            }
        };
        let patient = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(20))).await;
        let router = Router::new().route("/slow", on_post(slow.clone())).layer(IdempotencyLayer::new(patient));
        let send = |body: &str, router: &Router| {
            let (call, router) = (post("/slow").key("k").body(body), router.clone());
            tokio::spawn(async move { call.send(&router).await })
        };
        let first = send("one", &router);
        entered.notified().await;
        // One that does not wait for long learns only that.
        let hasty = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(1))).await;
        let hasty = Router::new().route("/slow", on_post(slow)).layer(IdempotencyLayer::new(hasty));
        let shown = send("one", &hasty).await.unwrap();
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::CONFLICT, "in-progress"));
        assert!(shown.retry_after() >= Some(1));
        let (same, other) = (send("one", &router), send("other", &router));
        lab.wait_until_blocked(if DIALECT == Dialect::Sqlite { 0 } else { 2 }).await;
        go_on.notify_one();
        assert_eq!(first.await.unwrap().text(), "slow");
        let same = same.await.unwrap();
        assert!(same.is_replayed() && same.text() == "slow", "{same:?}");
        assert_eq!(other.await.unwrap().problem(), "payload-mismatch");
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
    }

    async fn a_handler_that_writes_elsewhere_is_outside_the_unit(lab: Lab) {
        // On SQLite another connection would wait for the unit's, so nothing is written there.
        let pool = lab.pool.clone();
        let elsewhere = async move || {
            if DIALECT != Dialect::Sqlite {
                credit(&mut pool.acquire().await.unwrap(), "b", 10).await.unwrap();
            }
            StatusCode::INTERNAL_SERVER_ERROR
        };
        let router = Router::new().route("/elsewhere", on_post(elsewhere)).layer(layer(&lab));
        assert!(post("/elsewhere").key("k").send(&router).await.status.is_server_error());
        assert_eq!(lab.balance("b").await, if DIALECT == Dialect::Sqlite { 0 } else { 10 });
        assert_eq!(lab.claims().await, 0);
    }
}
