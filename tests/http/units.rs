//! The unit's connection in a handler's hands.

use crate::client::post;
use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post as on_post,
};
use idem_runtime::{
    Connection,
    http::{IdempotencyLayer, Rejection, UnitConnection},
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::Notify;

/// A body in two pieces, the second of which may be a failure or a panic; it can hold a connection until its end.
struct Pieces<C: Connection> {
    next: u8,
    second: Second,
    held: Option<UnitConnection<C>>,
}

#[derive(Clone, Copy)]
enum Second {
    Data,
    Failure,
    Panic,
}

impl<C: Connection> HttpBody for Pieces<C> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<axum_frame::Frame, std::io::Error>>> {
        self.next += 1;
        Poll::Ready(match (self.next, self.second) {
            (1, _) => Some(Ok(axum_frame::data("one "))),
            (2, Second::Data) => Some(Ok(axum_frame::data("two"))),
            (2, Second::Failure) => Some(Err(std::io::Error::other("the stream fails"))),
            (2, Second::Panic) => panic!("the stream panics"),
            _ => {
                self.held = None;
                None
            }
        })
    }
}

/// The frame's type, which axum does not name.
mod axum_frame {
    use axum::body::Bytes;

    pub(super) type Frame = http_body::Frame<Bytes>;

    pub(super) fn data(text: &'static str) -> Frame {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }
}

idem_tests::on_every_database! {
    given {
        fn routed<T: 'static>(lab: &Lab, handler: impl axum::handler::Handler<T, ()>) -> Router {
            Router::new().route("/do", on_post(handler)).layer(IdempotencyLayer::new(lab.store.clone()))
        }

        async fn streamed(mut db: UnitConnection<Conn>, second: Second, keep: bool) -> Response {
            credit(&mut db, "a", 10).await.unwrap();
            let held = keep.then_some(db);
            Body::new(Pieces { next: 0, second, held }).into_response()
        }

        /// Adds ten, and moves the connection into a task that ends when it is told to.
        async fn lends(go_on: Arc<Notify>, mut db: UnitConnection<Conn>) -> &'static str {
            credit(&mut db, "a", 10).await.unwrap();
            tokio::spawn(async move {
                go_on.notified().await;
                drop(db);
            });
            "done"
        }

        async fn one_after_the_other(request: axum::extract::Request) -> Result<&'static str, Rejection> {
            use axum::extract::FromRequestParts as _;
            let (mut parts, _) = request.into_parts();
            for _ in 0..2 {
                let mut db = UnitConnection::<Conn>::from_request_parts(&mut parts, &()).await?;
                credit(&mut db, "a", 10).await.unwrap();
            }
            Ok("done")
        }
    }

    async fn an_answer_that_streams_is_stored_whole(lab: Lab) {
        for hold in [false, true] {
            let router = routed(&lab, async move |db: UnitConnection<Conn>| streamed(db, Second::Data, hold).await);
            let key = format!("k{hold}");
            for replayed in [false, true] {
                let shown = post("/do").key(&key).send(&router).await;
                assert_eq!((shown.text(), shown.is_replayed()), ("one two", replayed));
            }
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 2));
    }

    async fn an_answer_whose_stream_fails_is_a_failure(lab: Lab) {
        for second in [Second::Failure, Second::Panic] {
            for hold in [false, true] {
                let router = routed(&lab, async move |db: UnitConnection<Conn>| streamed(db, second, hold).await);
                for _ in 0..2 {
                    let shown = post("/do").key("k").send(&router).await;
                    assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "failed"));
                }
            }
        }
        lab.wait_until_calm().await;
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let router = routed(&lab, async |db: UnitConnection<Conn>| streamed(db, Second::Data, false).await);
        assert_eq!(post("/do").key("k").send(&router).await.text(), "one two");
        assert_eq!(lab.balance("a").await, 10);
    }

    async fn a_connection_kept_beyond_the_answer_is_a_failure(lab: Lab) {
        let go_on = Arc::new(Notify::new());
        let handler = {
            let go_on = Arc::clone(&go_on);
            async move |db: UnitConnection<Conn>| lends(Arc::clone(&go_on), db).await
        };
        let router = routed(&lab, handler);
        let shown = post("/do").key("k").send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "failed"));
        go_on.notify_one();
        lab.wait_until_calm().await;
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let router = routed(&lab, async |mut db: UnitConnection<Conn>| credit(&mut db, "a", 10).await.unwrap());
        assert_eq!(post("/do").key("k").send(&router).await.status, StatusCode::OK);
        assert_eq!((lab.balance("a").await, lab.claims().await), (10, 1));
    }

    async fn one_has_it_at_a_time(lab: Lab) {
        let both = async |mut db: UnitConnection<Conn>, second: Result<UnitConnection<Conn>, Rejection>| {
            credit(&mut db, "a", 10).await.unwrap();
            second.map(|_| "two").map_err(IntoResponse::into_response)
        };
        let router = routed(&lab, both);
        let shown = post("/do").key("k").send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "misconfigured"));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let router = routed(&lab, one_after_the_other);
        assert_eq!(post("/do").key("k").send(&router).await.text(), "done");
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 1));
    }

    async fn without_a_layer_there_is_no_connection(lab: Lab) {
        let router = Router::new().route("/do", on_post(one_after_the_other));
        let shown = post("/do").key("k").send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "misconfigured"));
        assert_eq!(lab.balance("a").await, 0);
    }

    /// The seal: what a body did to the transaction is not reported as done.
    async fn a_handler_that_ends_the_transaction_is_a_failure(lab: Lab) {
        let ends = async |mut db: UnitConnection<Conn>| {
            credit(&mut db, "a", 10).await.unwrap();
            raw(&mut db, "ROLLBACK").await.unwrap();
            "done"
        };
        let router = routed(&lab, ends);
        let shown = post("/do").key("k").send(&router).await;
        assert_eq!((shown.status, &*shown.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "failed"));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
    }
}
