//! What a handler of a consumer may be.

use crate::script::Broker;
use idem_runtime::{
    Error, Outcome, SqliteStore,
    consume::{Backoff, Consumer},
    idempotent,
};
use idem_tests::brokers::Credit;
use sqlx::SqliteConnection;
use std::{cell::Cell, rc::Rc, time::Duration};

#[idempotent(key = msg.no, store = db, scope = "consume.send")]
async fn on_credit(db: &mut SqliteConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT ?").bind(msg.amount).execute(&mut *db).await.map(|_| ())
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

/// The future of a consumer can be spawned when its handler's can. The closure then owns what it uses: one that borrows
/// from the task around it is refused by the compiler (rust-lang/rust#102211).
#[tokio::test]
async fn a_consumer_can_be_spawned() {
    let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let broker = Broker::new();
    broker.send(r#"{"no":"1"}"#);
    let consumer = Consumer::of(broker.clone())
        .concurrency(4)
        .retry(Backoff::steps([Duration::from_millis(1)]))
        .ordered_by(|message: &Credit| message.no.clone());
    let running = tokio::spawn(assert_send(async move {
        consumer.run(async move |d| on_credit(&store, d.message()).await).await.unwrap();
    }));
    broker.until_acked(1).await;
    running.abort();
}

/// A handler may borrow, and be no `Send`.
#[tokio::test]
async fn a_handler_may_borrow_and_stay_on_its_thread() {
    let broker = Broker::new();
    for no in 0..3 {
        broker.send(format!(r#"{{"no":"{no}"}}"#));
    }
    let seen = Rc::new(Cell::new(0));
    let here = String::from("borrowed");
    let consumer = Consumer::of(broker.clone()).shutdown({
        let broker = broker.clone();
        async move { broker.until_acked(3).await }
    });
    let handler = async |d: &idem_runtime::consume::Delivery<Credit>| {
        seen.set(seen.get() + here.len().min(1) + usize::from(d.payload().is_empty()));
        Ok::<_, Error<String>>(Outcome::<()>::First(()))
    };
    let summary = consumer.run::<(), (), String, _>(handler).await.unwrap();
    assert_eq!((seen.get(), summary.acked, summary.taken), (3, 3, 3));
}
