//! Clients that go away in the middle, over real sockets.

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
    routing::post as on_post,
};
use idem_runtime::{
    Key,
    http::{HttpSettings, IdempotencyLayer, Principal, UnitConnection, detach, detached},
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// What a test and its server tell each other.
#[derive(Clone, Default)]
struct Signals {
    /// A body has begun.
    entered: Arc<Notify>,
    /// A body may go on.
    go_on: Arc<Notify>,
    /// The server is done with a request, in whatever way.
    left: Arc<Notify>,
}

struct Leaves(Arc<Notify>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn outermost(State(signals): State<Signals>, mut request: Request, next: Next) -> Response {
    let _leaves = Leaves(signals.left);
    request.extensions_mut().insert(Principal("alice".to_owned()));
    next.run(request).await
}

async fn serve(router: Router, signals: &Signals) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router.layer(middleware::from_fn_with_state(signals.clone(), outermost));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn send(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nidempotency-key: \"k\"\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.to_lowercase()
}

idem_tests::on_every_database! {
    given {
        async fn slow(signals: &Signals, db: &mut Conn) -> Result<String, sqlx::Error> {
            credit(db, "a", 10).await?;
            signals.entered.notify_one();
            signals.go_on.notified().await;
            credit(db, "b", 10).await?;
            Ok("done".to_owned())
        }

        async fn once(db: &Db, signals: &Signals) -> Response {
            let key = Key::scope("http.disconnect").part("k").finish();
            let body = async |db: &mut Conn| slow(signals, db).await.map_err(|error| error.to_string());
            HttpSettings::new().respond(db.once(key, body).await)
        }

        fn router(lab: &Lab, signals: &Signals) -> Router {
            let (db, of) = (lab.store.clone(), signals.clone());
            let plain = async move |_: Bytes| once(&db, &of).await;
            let (db, of) = (lab.store.clone(), signals.clone());
            let in_a_task = async move |_: Bytes| {
                let (db, of) = (db.clone(), of.clone());
                detach(async move { once(&db, &of).await }).await
            };
            let of = signals.clone();
            let layered = async move |mut db: UnitConnection<Conn>, _: Bytes| slow(&of, &mut db).await.unwrap();
            Router::new()
                .route("/plain", on_post(plain.clone()))
                .route("/detach", on_post(in_a_task))
                .route("/detached", on_post(plain).layer(middleware::from_fn(detached)))
                .route("/layer", on_post(layered).layer(IdempotencyLayer::new(lab.store.clone())))
        }

        /// Sends, goes away in the middle of the body, and gives the answer to the repeat.
        async fn gone_and_back(lab: &Lab, path: &str, comes_to_its_end: bool) -> String {
            let signals = Signals::default();
            let address = serve(router(lab, &signals), &signals).await;
            let stream = send(address, path).await;
            signals.entered.notified().await;
            drop(stream);
            signals.left.notified().await;
            signals.go_on.notify_one();
            if comes_to_its_end {
                for tries in 0.. {
                    if lab.claims().await == 1 {
                        break;
                    }
                    assert!(tries < 400, "{path}: the unit did not come to its end");
                    tokio::time::sleep(Duration::from_millis(25)).await;
                }
                assert_eq!((lab.balance("a").await, lab.balance("b").await), (10, 10), "{path}");
            } else {
                lab.wait_until_calm().await;
                assert_eq!((lab.balance("a").await, lab.balance("b").await, lab.claims().await), (0, 0, 0), "{path}");
            }
            let answer = answer(send(address, path).await).await;
            assert_eq!((lab.balance("a").await, lab.balance("b").await, lab.claims().await), (10, 10, 1), "{path}");
            answer
        }
    }

    async fn the_layer_goes_on_and_the_repeat_gets_the_answer(lab: Lab) {
        let answer = gone_and_back(&lab, "/layer", true).await;
        assert!(answer.contains("idempotent-replayed: true") && answer.ends_with("done"), "{answer}");
    }

    async fn a_detached_call_goes_on(lab: Lab) {
        let answer = gone_and_back(&lab, "/detach", true).await;
        assert!(answer.contains("already-done"), "{answer}");
    }

    async fn a_detached_route_goes_on(lab: Lab) {
        let answer = gone_and_back(&lab, "/detached", true).await;
        assert!(answer.contains("already-done"), "{answer}");
    }

    /// What the others are tested against: without it the server drops the unit, which is rolled back, and the repeat runs.
    async fn else_the_unit_is_rolled_back_and_the_repeat_runs(lab: Lab) {
        let answer = gone_and_back(&lab, "/plain", false).await;
        assert!(answer.ends_with("done"), "{answer}");
    }
}

/// A client that goes away while it is still sending claims nothing.
#[tokio::test]
async fn half_a_request_is_no_request() {
    let store = idem_runtime::SqliteStore::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let never = async || -> &'static str { panic!("half a request ran") };
    let router = Router::new().route("/do", on_post(never)).layer(IdempotencyLayer::new(store.clone()));
    let signals = Signals::default();
    let address = serve(router, &signals).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let half = "POST /do HTTP/1.1\r\nhost: test\r\nidempotency-key: k\r\ncontent-length: 10\r\n\r\nhalf";
    stream.write_all(half.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    drop(stream);
    signals.left.notified().await;
    let claims: i64 = sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(store.pool()).await.unwrap();
    assert_eq!(claims, 0);
}

#[tokio::test]
async fn a_panic_in_a_detached_future_goes_on_in_its_caller() {
    let caught = tokio::spawn(detach(async { panic!("inside") })).await;
    assert!(caught.unwrap_err().is_panic());
}
