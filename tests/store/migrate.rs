//! `migrate` can run at every start, by many instances at once, under any table name; the SQL files are the same.

use idem_runtime::{ConfigurationError, Key};

idem_tests::on_every_database! {
    given {
        /// The files that a team puts in its own migrations.
        const FILES: [&str; 4] = match DIALECT {
            Dialect::Sqlite => [
                include_str!("../../idem-runtime/migrations/sqlite/0001_idem_records.sql"),
                include_str!("../../idem-runtime/migrations/sqlite/0002_idem_tokens.sql"),
                include_str!("../../idem-runtime/migrations/sqlite/0003_idem_leases.sql"),
                include_str!("../../idem-runtime/migrations/sqlite/0004_idem_attempts.sql"),
            ],
            Dialect::Postgres => [
                include_str!("../../idem-runtime/migrations/postgres/0001_idem_records.sql"),
                include_str!("../../idem-runtime/migrations/postgres/0002_idem_tokens.sql"),
                include_str!("../../idem-runtime/migrations/postgres/0003_idem_leases.sql"),
                include_str!("../../idem-runtime/migrations/postgres/0004_idem_attempts.sql"),
            ],
            Dialect::MySql => [
                include_str!("../../idem-runtime/migrations/mysql/0001_idem_records.sql"),
                include_str!("../../idem-runtime/migrations/mysql/0002_idem_tokens.sql"),
                include_str!("../../idem-runtime/migrations/mysql/0003_idem_leases.sql"),
                include_str!("../../idem-runtime/migrations/mysql/0004_idem_attempts.sql"),
            ],
        };

        fn key() -> Result<Key, idem_runtime::KeyError> {
            Key::scope("migrate").part("one").finish()
        }
    }

    async fn the_files_make_tables_that_fit(lab: Lab) {
        let mut connection = lab.pool.acquire().await.unwrap();
        assert_eq!(lab.store.migration_sql(), FILES.concat());
        for (table, file) in ["idem_records", "idem_records_tokens", "idem_records_leases", "idem_records_attempts"].into_iter().zip(FILES) {
            raw(&mut connection, &format!("DROP TABLE {table}")).await.unwrap();
            raw(&mut connection, file).await.unwrap();
            raw(&mut connection, file).await.unwrap();
        }
        drop(connection);
        // Looks at each table, and would create none that is there.
        lab.store.migrate().await.unwrap();
    }

    async fn a_store_that_uses_records_alone_needs_no_other_table(lab: Lab) {
        let mut connection = lab.pool.acquire().await.unwrap();
        raw(&mut connection, "DROP TABLE idem_records_tokens").await.unwrap();
        raw(&mut connection, "DROP TABLE idem_records_leases").await.unwrap();
        raw(&mut connection, "DROP TABLE idem_records_attempts").await.unwrap();
        drop(connection);
        lab.store.verify().await.unwrap();
        let _ = lab.store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap();
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn many_instances_may_start_at_once(lab: Lab) {
        let mut connection = lab.pool.acquire().await.unwrap();
        raw(&mut connection, "DROP TABLE idem_records").await.unwrap();
        drop(connection);
        let mut starts = Vec::new();
        for _ in 0..8 {
            let store = lab.other_store(Lab::builder()).await;
            starts.push(tokio::spawn(async move {
                store.migrate().await?;
                let _ = store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap();
                store.pool().close().await;
                Ok::<_, ConfigurationError>(())
            }));
        }
        for start in starts {
            start.await.unwrap().unwrap();
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
    }

    async fn another_table_name_is_another_memory(lab: Lab) {
        let store = lab.other_store(Lab::builder().table("payment_records")).await;
        store.migrate().await.unwrap();
        assert!(lab.store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        assert_eq!((lab.claims().await, lab.rows("payment_records").await), (1, 1));
        store.pool().close().await;
    }

    async fn without_a_table_nothing_runs_and_the_error_holds_the_sql(lab: Lab) {
        let mut connection = lab.pool.acquire().await.unwrap();
        raw(&mut connection, "DROP TABLE idem_records").await.unwrap();
        let store = lab.other_store(Lab::builder()).await;
        let refused = store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap_err();
        let idem_runtime::Error::Configuration(ConfigurationError::NoTable { sql, .. }) = &refused else {
            panic!("{refused:?}")
        };
        assert!(refused.to_string().contains("store.migrate()"), "the way out is named");
        assert_eq!(refused.advice(), idem_runtime::Advice::RetryLater, "the message is not at fault");
        raw(&mut connection, sql).await.unwrap();
        assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());

        // A table that is dropped under a store in use.
        raw(&mut connection, "DROP TABLE idem_records").await.unwrap();
        let refused = store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap_err();
        assert!(matches!(refused, idem_runtime::Error::Configuration(ConfigurationError::NoTable { .. })), "{refused:?}");
        raw(&mut connection, FILES[0]).await.unwrap();
        assert_eq!(lab.balance("a").await, 1);
        store.pool().close().await;
    }

    /// On PostgreSQL even CREATE INDEX IF NOT EXISTS waits for every transaction on the table, and holds up all others.
    async fn a_start_does_not_wait_for_units_or_hold_them_up(lab: Lab) {
        let holder = lab.store.claim(key()).await.unwrap();
        let starting = lab.other_store(Lab::builder()).await;
        starting.migrate().await.unwrap();
        let idem_runtime::Claim::First(mut unit) = holder else { panic!("not first") };
        credit(unit.connection(), "a", 1).await.unwrap();
        assert!(unit.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        starting.pool().close().await;
    }

    async fn a_table_may_be_in_a_schema(lab: Lab) {
        let schema: String = match DIALECT {
            Dialect::Sqlite => "main".to_owned(),
            Dialect::Postgres => sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&lab.pool).await.unwrap(),
            Dialect::MySql => sqlx::query_scalar("SELECT database()").fetch_one(&lab.pool).await.unwrap(),
        };
        let store = lab.other_store(Lab::builder().table(format!("{schema}.filed"))).await;
        store.migrate().await.unwrap();
        assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        assert_eq!((lab.rows("filed").await, lab.claims().await), (1, 0));
        store.pool().close().await;
    }
}
