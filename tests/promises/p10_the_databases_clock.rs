//! Promise 10: the database's clock decides every expiry, and stored instants are UTC. Case C34.
//!
//! The contract differs from C34 in one thing: a record past its retention still refuses a repeat, and says that it is
//! late, until it is purged.

use idem_runtime::{Key, KeyError, Outcome, Retention};
use std::time::{Duration, SystemTime};

fn key(fact: &str) -> Result<Key, KeyError> {
    Key::scope("p10").part(fact).delivery("d-1").finish()
}

idem_tests::on_every_database! {
    given {
        /// An instant column as milliseconds since the epoch, read as UTC whatever the session's time zone.
        fn millis(column: &str) -> String {
            match DIALECT {
                Dialect::Sqlite => format!("SELECT CAST(round((julianday({column}) - 2440587.5) * 86400000) AS INTEGER) FROM idem_records"),
                Dialect::Postgres => format!("SELECT (extract(epoch FROM {column}) * 1000)::bigint FROM idem_records"),
                Dialect::MySql => format!("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column}) DIV 1000 FROM idem_records"),
            }
        }

        fn database_now() -> &'static str {
            match DIALECT {
                Dialect::Sqlite => "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
                Dialect::Postgres => "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                Dialect::MySql => "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000",
            }
        }

        /// Moves the record into the past, as if that time had gone by.
        async fn age(lab: &Lab, days: i64) {
            let mut connection = lab.pool.acquire().await.unwrap();
            for column in ["claimed_at", "keep_until"] {
                let sql = match DIALECT {
                    Dialect::Sqlite => format!("UPDATE idem_records SET {column} = strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '-{days} days')"),
                    Dialect::Postgres => format!("UPDATE idem_records SET {column} = {column} - interval '{days} days'"),
                    Dialect::MySql => format!("UPDATE idem_records SET {column} = {column} - INTERVAL {days} DAY"),
                };
                raw(&mut connection, &sql).await.unwrap();
            }
        }
    }

    async fn the_record_holds_the_databases_time_and_the_configured_retention(lab: Lab) {
        let store = lab.other_store(Lab::builder().retention(Retention::days(3))).await;
        let before = lab.number(database_now()).await;
        assert!(store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        let after = lab.number(database_now()).await;
        let claimed_at = lab.number(&millis("claimed_at")).await;
        let keep_until = lab.number(&millis("keep_until")).await;
        // Milliseconds are rounded one way here and the other way there.
        assert!((before - 1..=after + 1).contains(&claimed_at), "{before} {claimed_at} {after}");
        assert!((keep_until - claimed_at - 3 * 86_400_000).abs() <= 1, "{}", keep_until - claimed_at);
    }

    async fn a_repeat_learns_when_and_by_which_delivery(lab: Lab) {
        assert!(lab.store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        let claimed_at = lab.number(&millis("claimed_at")).await;
        let again = Key::scope("p10").part("a").delivery("d-2").finish();
        let Outcome::Duplicate(seen) = lab.store.once(again, async |db| credit(db, "a", 1).await).await.unwrap() else {
            panic!("not a duplicate")
        };
        let since = seen.first_at.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(i64::try_from(since.as_millis()).unwrap().abs_diff(claimed_at) <= 1);
        assert_eq!(seen.delivery_id.as_deref(), Some("d-1"));
        assert!(!seen.late);
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn past_its_retention_a_record_still_refuses_and_says_late(lab: Lab) {
        assert!(lab.store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        for (days, late) in [(29, false), (2, true)] {
            age(&lab, days).await;
            let Outcome::Duplicate(seen) = lab.store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap() else {
                panic!("a record that is only old let a repeat pass")
            };
            assert_eq!(seen.late, late, "after {days} more days");
        }
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_session_in_another_time_zone_changes_nothing(lab: Lab) {
        let options = PoolOptions::new().max_connections(1).after_connect(|connection, _| Box::pin(async move {
            match DIALECT {
                Dialect::Sqlite => Ok(()),
                Dialect::Postgres => raw(connection, "SET TIME ZONE 'Asia/Shanghai'").await,
                Dialect::MySql => raw(connection, "SET time_zone = '+08:00'").await,
            }
        }));
        let store = Db::new(options.connect(&lab.url).await.unwrap());
        let before = lab.number(database_now()).await;
        assert!(store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        let claimed_at = lab.number(&millis("claimed_at")).await;
        assert!(claimed_at.abs_diff(before) < 3_600_000, "the instant is off by a time zone");
        let Outcome::Duplicate(seen) = store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap() else {
            panic!("not a duplicate")
        };
        let since = seen.first_at.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(i64::try_from(since.as_millis()).unwrap().abs_diff(claimed_at) <= 1);
        store.pool().close().await;
    }

    async fn the_longest_retention_is_a_date_that_the_database_can_hold(lab: Lab) {
        let store = lab.other_store(Lab::builder().retention(Retention::of(Duration::MAX))).await;
        assert!(store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        let years = (lab.number(&millis("keep_until")).await - lab.number(&millis("claimed_at")).await) / 86_400_000 / 365;
        assert_eq!(years, 100);
        let again = store.once(key("a"), async |db| credit(db, "a", 1).await).await.unwrap();
        assert!(matches!(again, Outcome::Duplicate(seen) if !seen.late));
    }
}
