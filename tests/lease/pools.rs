//! Leases over a pool that other code uses too, and may leave in disorder.

use crate::place::{Place as _, begin, first, key};
use idem_runtime::{Begun, Store};
use std::io;

idem_tests::on_every_database! {
    given {
        /// A pool of one connection, on which other code left something open.
        async fn spoilt_pool(lab: &Lab, by: &str) -> Pool {
            let pool = PoolOptions::new().max_connections(1).connect(&lab.url).await.unwrap();
            let mut connection = pool.acquire().await.unwrap();
            raw(&mut connection, by).await.unwrap();
            drop(connection);
            pool
        }
    }

    async fn what_is_written_is_durable_although_a_transaction_was_left_open(lab: Lab) {
        let spoilers: &[&str] = match DIALECT {
            Dialect::Sqlite => &["BEGIN", "BEGIN; SELECT count(*) FROM accounts"],
            Dialect::Postgres => &[
                "BEGIN",
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM accounts",
                "BEGIN; SELECT count(*) FROM accounts",
                "SET default_transaction_isolation = 'serializable'",
            ],
            Dialect::MySql => &[
                "START TRANSACTION",
                "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET autocommit = 0; SELECT count(*) FROM accounts",
                "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            ],
        };
        for spoiler in spoilers {
            let pool = spoilt_pool(&lab, spoiler).await;
            let leases = Store::<Conn>::new(pool.clone());
            let fact = format!("fact-{}", spoiler.len());
            let held = first(&leases, &fact).await;
            assert!(lab.written(&fact).await.is_some(), "{spoiler}: begun in a transaction that nobody commits");
            assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first(), "{spoiler}");
            assert!(lab.written(&fact).await.unwrap().done, "{spoiler}: completed in a transaction that nobody commits");
            assert!(matches!(begin(&leases, key(&fact)).await, Ok(Begun::Duplicate(_))), "{spoiler}");
            pool.close().await;
        }
    }

    async fn no_connection_is_held_while_a_body_works(lab: Lab) {
        let pool = PoolOptions::new().max_connections(1).connect(&lab.url).await.unwrap();
        let leases = Store::<Conn>::new(pool.clone());
        let many = [first(&leases, "a").await, first(&leases, "b").await, first(&leases, "c").await];
        let mut connection = pool.acquire().await.unwrap();
        credit(&mut connection, "a", 1).await.unwrap();
        drop(connection);
        for held in many {
            assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        }
        pool.close().await;
    }

    async fn a_missing_table_is_a_configuration_error_that_holds_the_sql(lab: Lab) {
        let mut connection = lab.pool.acquire().await.unwrap();
        raw(&mut connection, "DROP TABLE idem_records_leases").await.unwrap();
        let leases = lab.other_store(Lab::builder()).await;
        match begin(&leases, key("a")).await {
            Err(idem_runtime::ClaimError::Configuration(idem_runtime::ConfigurationError::NoTable { sql, table })) => {
                assert_eq!(table, "idem_records_leases");
                raw(&mut connection, &sql).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
        drop(first(&leases, "a").await);
        // Dropped under a store in use.
        raw(&mut connection, "DROP TABLE idem_records_leases").await.unwrap();
        let refused = begin(&leases, key("b")).await;
        assert!(
            matches!(
                refused,
                Err(idem_runtime::ClaimError::Configuration(idem_runtime::ConfigurationError::NoTable { .. }))
            ),
            "{refused:?}"
        );
        raw(&mut connection, &leases.migration_sql()).await.unwrap();
        drop(first(&leases, "b").await);
        leases.pool().close().await;
    }
}
