//! A form with a one-time token in a hidden field: submitted twice, it takes effect once.

use crate::client::post;
use axum::{
    Form, Router,
    extract::State,
    http::{Method, StatusCode},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use idem_runtime::{http::HttpSettings, idempotent};
use serde::Deserialize;
use std::time::Duration;

const TTL: Duration = Duration::from_mins(30);

#[derive(Debug, Deserialize)]
struct Submit {
    token: String,
    amount: i64,
}

#[derive(Debug)]
struct Failed;

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

idem_tests::on_every_database! {
    given {
        #[idempotent(token = form.token, store = db, scope = "order.submit", payload = form.amount, replay)]
        async fn submit(db: &mut Conn, form: &Submit) -> Result<String, Failed> {
            credit(db, "a", form.amount).await.map_err(|_| Failed)?;
            if form.amount == 13 { Err(Failed) } else { Ok(format!("ordered for {}", form.amount)) }
        }

        async fn show_form(State(db): State<Db>) -> Result<Html<String>, StatusCode> {
            let token = db.tokens("order.submit").issue(TTL).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
            Ok(Html(format!(r#"<form method="post"><input type="hidden" name="token" value="{token}">..</form>"#)))
        }

        async fn take_form(State(db): State<Db>, Form(form): Form<Submit>) -> Response {
            HttpSettings::new().respond(submit(&db, &form).await)
        }

        fn router(lab: &Lab) -> Router {
            Router::new().route("/order", get(show_form).post(take_form)).with_state(lab.store.clone())
        }

        async fn token(router: &Router) -> String {
            let page = post("/order").method(Method::GET).send(router).await;
            let (_, rest) = page.text().split_once("value=\"").unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        }

        fn filled(token: &str, amount: i64) -> crate::client::Call {
            let form = format!("token={token}&amount={amount}");
            post("/order").header("content-type", "application/x-www-form-urlencoded").body(form)
        }
    }

    async fn a_double_click_is_one_order(lab: Lab) {
        let router = router(&lab);
        let token = token(&router).await;
        let (one, two) = tokio::join!(filled(&token, 10).send(&router), filled(&token, 10).send(&router));
        assert_eq!((one.text(), two.text()), ("ordered for 10", "ordered for 10"));
        assert_ne!(one.is_replayed(), two.is_replayed());
        assert_eq!(lab.balance("a").await, 10);
        assert_eq!(filled(&token, 20).send(&router).await.problem(), "payload-mismatch");
        assert_eq!(lab.balance("a").await, 10);
    }

    async fn a_form_that_failed_can_be_sent_again(lab: Lab) {
        let router = router(&lab);
        let token = token(&router).await;
        assert_eq!(filled(&token, 13).send(&router).await.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(filled(&token, 10).send(&router).await.text(), "ordered for 10");
        assert_eq!(lab.balance("a").await, 10);
    }

    async fn tokens_that_are_none_are_told_apart(lab: Lab) {
        let router = router(&lab);
        let foreign = lab.store.tokens("order.cancel").issue(TTL).await.unwrap();
        let expired = lab.store.tokens("order.submit").issue(Duration::from_millis(1)).await.unwrap();
        let unknown = "0".repeat(64);
        // By the database's clock, whose next millisecond this cannot be.
        tokio::time::sleep(Duration::from_millis(20)).await;
        for (token, status, problem) in [
            ("nonsense", StatusCode::BAD_REQUEST, "token-malformed"),
            (&*unknown, StatusCode::FORBIDDEN, "token-unknown"),
            (foreign.as_str(), StatusCode::FORBIDDEN, "token-foreign"),
            (expired.as_str(), StatusCode::GONE, "token-expired"),
        ] {
            let refused = filled(token, 10).send(&router).await;
            assert_eq!((refused.status, &*refused.problem()), (status, problem), "{token}");
            assert!(!refused.text().contains("order."), "{}", refused.text());
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
    }
}
