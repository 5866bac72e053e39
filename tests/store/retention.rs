//! A retention that is shorter than the longest redelivery is refused at start. Case C35.

use idem_runtime::{ConfigurationError, Floor, Retention, SqliteStore};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn jetstream(max_deliver: i64, max_age: Duration) -> Floor {
    Floor::jetstream(max_deliver, Duration::from_secs(30), &[], max_age).unwrap()
}

#[test]
fn a_shorter_retention_than_the_floor_is_refused_with_the_least() {
    idem_tests::run(async {
        for (floor, retention, least) in [
            // 4 h 45 min 40 s, and a quarter.
            (Floor::rocketmq(), HOUR, Duration::from_secs(17_140 * 5 / 4)),
            (
                Floor::rocketmq().redriven_within(3 * DAY).margin(HOUR),
                3 * DAY,
                3 * DAY + HOUR + Duration::from_secs(17_140),
            ),
            (Floor::kafka_defaults(), 7 * DAY, 14 * DAY * 5 / 4),
            (jetstream(11, Duration::ZERO), HOUR, HOUR + Duration::from_mins(5)),
            (jetstream(-1, 40 * DAY), 30 * DAY, 50 * DAY),
            (Floor::rabbitmq(&[HOUR, 8 * HOUR]).margin(HOUR), 10 * HOUR, 11 * HOUR + HOUR / 2),
            (Floor::ledger(), 29 * DAY, 30 * DAY),
            (Floor::redelivered_within(Duration::MAX), 36_500 * DAY, Duration::MAX),
        ] {
            let builder = || SqliteStore::builder().covers(floor.clone());
            let refused = builder().retention(Retention::of(retention)).connect("sqlite::memory:").await;
            let Err(ConfigurationError::Retention { retention: kept, needed, because }) = refused else {
                panic!("{retention:?} for {floor}: {refused:?}")
            };
            assert_eq!((kept, needed), (retention, least), "{floor}");
            assert_eq!(because, floor.to_string());
            let pool = sqlx::SqlitePool::connect_lazy("sqlite::memory:").unwrap();
            let refused = builder().retention(Retention::of(retention)).pool(pool);
            assert!(matches!(refused, Err(ConfigurationError::Retention { .. })), "{floor}");
            if least < Duration::MAX {
                builder().retention(Retention::of(least)).connect("sqlite::memory:").await.unwrap();
                let short = least.checked_sub(Duration::from_millis(1)).unwrap();
                let short = builder().retention(Retention::of(short));
                assert!(short.connect("sqlite::memory:").await.is_err(), "{floor}");
                builder().retention(Retention::covering(&floor)).connect("sqlite::memory:").await.unwrap();
            }
        }
    });
}

#[test]
fn of_several_floors_the_longest_counts_and_the_default_covers_a_ledger() {
    idem_tests::run(async {
        let builder = SqliteStore::builder().covers(jetstream(-1, 40 * DAY)).covers(Floor::rocketmq());
        let error = builder.connect("sqlite::memory:").await.unwrap_err();
        assert!(error.to_string().contains("the JetStream stream holds a message for 40d"), "{error}");
        SqliteStore::builder().covers(Floor::ledger()).connect("sqlite::memory:").await.unwrap();
        SqliteStore::builder().covers(Floor::kafka_defaults()).connect("sqlite::memory:").await.unwrap();
    });
}

#[test]
fn covering_is_never_shorter_than_the_floor() {
    for millis in [0, 1, 59_999, 60_000, 60_001, 86_400_000] {
        let floor = Floor::redelivered_within(Duration::from_millis(millis)).margin(Duration::ZERO);
        let kept = Retention::covering(&floor).as_duration();
        assert!(kept >= floor.least() && kept < floor.least() + Duration::from_mins(1), "{millis} {kept:?}");
    }
    assert_eq!(Retention::covering(&Floor::redelivered_within(Duration::MAX)), Retention::MAX);
}
