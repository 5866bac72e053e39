//! A consumer process of the soak.

use super::MOST_ATTEMPTS;
use crate::brokers::{Harness, quick};

/// What the consumer does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The handler under test.
    Annotated,
    /// The same without the attribute, to see that the soak can tell.
    Naive,
}

/// Consumes until the process is killed, or the broker is lost for good.
pub async fn work<H: Harness>(described: &str, url: &str, body: Body) {
    let harness = H::attach(described).await;
    let (consumer, _line) = harness.consumer().await;
    let consumer = quick(consumer).concurrency(8).max_attempts(MOST_ATTEMPTS);
    let ended = if url.starts_with("postgres") {
        postgres::run(consumer, &postgres::store(url).await, body).await
    } else {
        mysql::run(consumer, &mysql::store(url).await, body).await
    };
    if let Err(error) = ended {
        eprintln!("soak: a consumer ended: {error}");
    }
}

macro_rules! worker {
    ($database:ident) => {
        pub(super) mod $database {
            use super::Body;
            use crate::{
                brokers::Credit,
                $database::{Conn, Db, credit, execute},
            };
            use idem_runtime::{
                Error, Outcome, Store,
                consume::{Adapter, Consumer, RunError, Summary},
                idempotent,
            };
            use std::time::Duration;

            pub(super) async fn store(url: &str) -> Db {
                let builder = Store::<Conn>::builder().max_connections(8).acquire_timeout(Duration::from_secs(5));
                builder.connect(url).await.expect("the store connects")
            }

            async fn effect(db: &mut Conn, msg: &Credit) -> Result<(), sqlx::Error> {
                execute(db, "INSERT INTO effects (action_no) VALUES (?)", &[&msg.no]).await?;
                // Room for a kill.
                tokio::time::sleep(Duration::from_millis(2)).await;
                credit(db, &msg.no[msg.no.len() - 1..], msg.amount).await
            }

            #[idempotent(key = msg.no, store = db, scope = "soak")]
            async fn on_message(db: &mut Conn, msg: &Credit) -> Result<(), sqlx::Error> {
                effect(db, msg).await
            }

            async fn without(store: &Db, msg: &Credit) -> Result<(), sqlx::Error> {
                let mut transaction = store.pool().begin().await?;
                effect(&mut transaction, msg).await?;
                transaction.commit().await
            }

            pub(in crate::soak) async fn run<A: Adapter>(
                consumer: Consumer<A, Credit>,
                store: &Db,
                body: Body,
            ) -> Result<Summary, RunError> {
                consumer
                    .run(async |d| match body {
                        Body::Annotated => on_message(store, d.message()).await,
                        Body::Naive => without(store, d.message()).await.map(Outcome::First).map_err(Error::Body),
                    })
                    .await
            }
        }
    };
}

worker!(postgres);
worker!(mysql);
