//! Settings that a store refuses, and what it says.

use idem_runtime::{ConfigurationError, SqliteStore, Store};
use std::time::Duration;

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
