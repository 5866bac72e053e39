//! A COMMIT whose answer is lost, as a client of HTTP sees it.

use crate::client::post;
use axum::{Router, http::StatusCode, routing::post as on_post};
use idem_runtime::http::{IdempotencyLayer, UnitConnection};
use idem_tests::proxy::{Cut, Proxy};
use std::{net::SocketAddr, time::Duration};

/// What only the closing statement of a unit holds.
const COMMIT: &str = "RELEASE SAVEPOINT idem_guard";

async fn proxy_to(url: &str) -> Proxy {
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let address: SocketAddr = rest.split('/').next().unwrap_or_default().parse().expect("an address with a port");
    Proxy::start(address, Duration::ZERO).await.expect("a proxy")
}

idem_tests::on_every_server! {
    given {
        async fn pay(mut db: UnitConnection<Conn>) -> Result<(StatusCode, &'static str), StatusCode> {
            credit(&mut db, "a", 10).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
            Ok((StatusCode::CREATED, "paid"))
        }
    }

    async fn a_commit_that_happened_is_answered_and_one_that_did_not_may_be_sent_again(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = Lab::builder().connect(&proxy.in_url(&lab.url)).await.unwrap();
        let router = Router::new().route("/pay", on_post(pay)).layer(IdempotencyLayer::new(store.clone()));
        proxy.cut_once(COMMIT, Cut::After).await;
        let shown = post("/pay").key("happened").send(&router).await;
        assert_eq!((shown.status, shown.is_replayed()), (StatusCode::CREATED, false));
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
        assert!(post("/pay").key("happened").send(&router).await.is_replayed());

        proxy.cut_once(COMMIT, Cut::Before).await;
        let shown = post("/pay").key("did-not").send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
        assert!(shown.retry_after() >= Some(1));
        assert_eq!(proxy.cuts(), 2);
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
        let again = post("/pay").key("did-not").send(&router).await;
        assert_eq!((again.status, again.is_replayed()), (StatusCode::CREATED, false));
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 2));
        store.pool().close().await;
    }

    async fn a_database_that_is_away_is_503_and_says_nothing_of_itself(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let builder = Lab::builder().acquire_timeout(Duration::from_millis(200));
        let store = builder.connect(&proxy.in_url(&lab.url)).await.unwrap();
        store.verify().await.unwrap();
        let router = Router::new().route("/pay", on_post(pay)).layer(IdempotencyLayer::new(store.clone()));
        proxy.refuse(true);
        proxy.break_all();
        let shown = post("/pay").key("k").send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
        assert!(shown.retry_after() >= Some(1));
        assert!(!shown.text().contains("127.0.0.1") && !shown.text().contains("onnect"), "{}", shown.text());
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        store.pool().close().await;
    }
}
