//! SQLite in memory: a database that vanishes with its last connection. Case C28.

use idem_runtime::{ConfigurationError, Error, Key, SqliteStore};
use idem_tests::sqlite::{PoolOptions, raw};
use sqlx::sqlite::SqliteConnectOptions;
use std::time::Duration;

fn key(fact: usize) -> Result<Key, idem_runtime::KeyError> {
    Key::scope("memory").part(&fact).finish()
}

async fn count(store: &SqliteStore, table: &str) -> i64 {
    let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(sql).fetch_one(store.pool()).await.unwrap()
}

#[test]
fn claims_outlive_the_connections_that_are_thrown_away() {
    idem_tests::run(async {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        sqlx::query("CREATE TABLE effects (n INTEGER)").execute(store.pool()).await.unwrap();
        for fact in 0..5 {
            // A dropped unit closes its connection, the only one of the pool.
            drop(store.claim(key(fact)).await.unwrap());
            let effect = async |db: &mut sqlx::SqliteConnection| raw(db, "INSERT INTO effects VALUES (1)").await;
            assert!(store.once(key(fact), effect).await.unwrap().is_first());
            assert!(store.once(key(fact), effect).await.unwrap().is_duplicate());
        }
        assert_eq!((count(&store, "effects").await, count(&store, "idem_records").await), (5, 5));
    });
}

#[test]
fn two_stores_in_memory_are_two_databases() {
    idem_tests::run(async {
        for _ in 0..2 {
            let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
            store.migrate().await.unwrap();
            assert!(store.once(key(1), async |_| Ok::<_, ()>(())).await.unwrap().is_first());
        }
    });
}

#[test]
fn a_shared_pool_in_memory_works_with_many_connections_that_come_and_go() {
    idem_tests::run(async {
        let options = PoolOptions::new().max_connections(4).idle_timeout(Duration::from_millis(10));
        let store = SqliteStore::new(options.connect("sqlite::memory:").await.unwrap());
        store.migrate().await.unwrap();
        let mut deliveries = Vec::new();
        for delivery in 0..40 {
            let store = store.clone();
            deliveries.push(tokio::spawn(async move {
                store.once(key(delivery % 10), async |_| Ok::<_, ()>(())).await.map(|outcome| outcome.is_first())
            }));
        }
        let mut firsts = 0;
        for delivery in deliveries {
            firsts += usize::from(delivery.await.unwrap().unwrap());
        }
        assert_eq!(firsts, 10);
        assert_eq!(count(&store, "idem_records").await, 10);
    });
}

#[test]
fn a_database_that_vanishes_with_its_connection_is_refused() {
    idem_tests::run(async {
        let private = PoolOptions::new().connect_with(SqliteConnectOptions::new()).await.unwrap();
        let named = PoolOptions::new().connect("sqlite://records?mode=memory").await.unwrap();
        for pool in [private, named] {
            let store = SqliteStore::new(pool);
            assert!(matches!(store.migrate().await, Err(ConfigurationError::PrivateMemory)));
            let refused = store.once(key(1), async |_| Ok::<_, ()>(())).await;
            assert!(matches!(refused, Err(Error::Configuration(ConfigurationError::PrivateMemory))), "{refused:?}");
        }
    });
}
