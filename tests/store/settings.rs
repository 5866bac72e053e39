//! Settings that a store refuses, and what it says.

use idem_runtime::{ConfigurationError, SqliteStore, Store};
use std::time::Duration;

idem_tests::on_every_database! {
    given {}

    /// Settings come from configuration files: a value that no database knows is bounded, and never a panic.
    async fn the_longest_and_the_shortest_waits_work(lab: Lab) {
        for (fact, wait) in [("longest", Duration::MAX), ("shortest", Duration::ZERO)] {
            let answer = if wait.is_zero() { Duration::from_secs(30) } else { wait };
            let store = lab.other_store(Lab::builder().lock_wait(wait).answer_timeout(answer)).await;
            let key = || idem_runtime::Key::scope("settings").part(fact).finish();
            assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first(), "{fact}");
            assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate(), "{fact}");
            store.pool().close().await;
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }
}

#[test]
fn a_table_name_is_plain_identifiers() {
    idem_tests::run(async {
        for name in ["", "a b", "a;b", "1a", "a.b.c", "a\"b", "täble", ".a", "a.", &"a".repeat(49)] {
            let refused = SqliteStore::builder().table(name).connect("sqlite::memory:").await;
            assert!(matches!(refused, Err(ConfigurationError::TableName(_))), "{name:?}");
        }
        for name in ["idem", "payments.idem_records", "_x1", &"a".repeat(48)] {
            SqliteStore::builder().table(name).connect("sqlite::memory:").await.unwrap();
        }
    });
}

#[test]
fn a_url_that_leads_nowhere_is_a_configuration_error() {
    idem_tests::run(async {
        let refused = SqliteStore::connect("sqlite:///nowhere/at/all/lab.db").await;
        assert!(matches!(refused, Err(ConfigurationError::Connect(_))), "{refused:?}");
        // A refused connection is tried again until the timeout: the database may be starting too.
        let builder = Store::<sqlx::PgConnection>::builder().acquire_timeout(Duration::from_millis(300));
        let refused = builder.connect("postgres://nobody@127.0.0.1:1/none").await;
        assert!(matches!(refused, Err(ConfigurationError::Connect(_))), "{refused:?}");
    });
}
