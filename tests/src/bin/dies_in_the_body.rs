//! A consumer that dies in the middle of its work, for the tests of gates: it claims an action behind a gate in Redis, writes,
//! and aborts before COMMIT, so that no code of its own runs any more.
//!
//! `dies_in_the_body DATABASE_URL REDIS_URL NAMESPACE MARK_MILLISECONDS`

use idem_runtime::{Connection, Key, Store, StoreBuilder, gate::RedisGate};
use std::{error::Error, time::Duration};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, redis, namespace, mark] = &arguments[..] else { return Err("four arguments".into()) };
    let gate = RedisGate::connect(redis, namespace)
        .await?
        .timeout(Duration::from_secs(5))
        .in_flight(Duration::from_millis(mark.parse()?));
    let credit = "UPDATE accounts SET balance = balance + 100 WHERE id = 'a'";
    match database.split(':').next() {
        Some("sqlite") => {
            let store = store::<sqlx::SqliteConnection>(Store::builder(), gate, database).await?;
            let _ = store.once(key(), async |db| die(sqlx::query(credit).execute(&mut *db).await.is_ok())).await?;
        }
        Some("postgres") => {
            let store = store::<sqlx::PgConnection>(Store::builder(), gate, database).await?;
            let _ = store.once(key(), async |db| die(sqlx::query(credit).execute(&mut *db).await.is_ok())).await?;
        }
        _ => {
            let store = store::<sqlx::MySqlConnection>(Store::builder(), gate, database).await?;
            let _ = store.once(key(), async |db| die(sqlx::query(credit).execute(&mut *db).await.is_ok())).await?;
        }
    }
    Err("it lives".into())
}

fn key() -> Result<Key, idem_runtime::KeyError> {
    Key::scope("gate.process_death").part("one").finish()
}

async fn store<C: Connection>(
    builder: StoreBuilder<C>,
    gate: RedisGate,
    url: &str,
) -> Result<Store<C>, idem_runtime::ConfigurationError> {
    builder.gate(gate).connect(url).await
}

fn die(written: bool) -> Result<(), &'static str> {
    if written {
        std::process::abort();
    }
    Err("nothing was written")
}
