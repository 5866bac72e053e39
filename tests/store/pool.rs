//! A store over the application's own pool, which other code uses too.

use idem_runtime::Key;

idem_tests::on_every_database! {
    given {}

    /// sqlx gives connections back to the pool in whatever state a dropped future leaves them.
    async fn a_connection_that_other_code_spoilt_is_replaced(lab: Lab) {
        let pool = PoolOptions::new().max_connections(1).connect(&lab.url).await.unwrap();
        let store = Db::new(pool.clone());
        store.verify().await.unwrap();
        let mut connection = pool.acquire().await.unwrap();
        raw(&mut connection, match DIALECT {
            Dialect::Sqlite | Dialect::Postgres => "BEGIN; UPDATE accounts SET balance = 1000 WHERE id = 'b'",
            Dialect::MySql => "START TRANSACTION; UPDATE accounts SET balance = 1000 WHERE id = 'b'",
        }).await.unwrap();
        drop(connection);
        let key = || Key::scope("pool").part("one").finish();
        assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.balance("b").await, lab.claims().await), (1, 0, 1));
        pool.close().await;
    }

    async fn the_pool_gets_its_connection_back_as_it_was(lab: Lab) {
        let pool = PoolOptions::new().max_connections(1).connect(&lab.url).await.unwrap();
        let store = Db::new(pool.clone());
        let setting = match DIALECT {
            Dialect::Sqlite => "SELECT timeout FROM pragma_busy_timeout",
            Dialect::Postgres => "SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'",
            Dialect::MySql => "SELECT CAST(@@SESSION.innodb_lock_wait_timeout AS SIGNED)",
        };
        let read = async || sqlx::query_scalar::<_, i64>(setting).fetch_one(&pool).await.unwrap();
        let before = read().await;
        let key = |fact: &str| Key::scope("pool").part(fact).finish();
        assert!(store.once(key("first"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        assert_eq!(read().await, before, "after a first delivery");
        assert!(store.once(key("first"), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        assert_eq!(read().await, before, "after a duplicate");
        assert!(store.once(key("failed"), async |_| Err::<(), _>("no")).await.is_err());
        assert_eq!(read().await, before, "after a failed body");
        pool.close().await;
    }
}
