//! Promise 11: one log event a delivery, with fixed fields, at info or below for what is normal. Cases C10 (a second
//! broker id against the same business key) and C29 (duplicates are normal operation).

use idem_runtime::{Error, Key, KeyError, idempotent};
use idem_tests::logs::{Heard, Listener};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing::Level;

fn key(fact: &str, delivery: &str) -> Result<Key, KeyError> {
    Key::scope("p11").part(fact).delivery(delivery).finish()
}

/// The only event since the last look, after a check of its fixed fields.
fn only(listener: &Listener, outcome: &str, delivery: &str, key: &str) -> Heard {
    let mut heard = listener.outcomes();
    assert_eq!(heard.len(), 1, "{heard:#?}");
    let event = heard.remove(0);
    assert_eq!(event.field("idem.outcome"), Some(outcome), "{event:#?}");
    assert_eq!(event.field("delivery.id"), Some(delivery), "{event:#?}");
    assert_eq!(event.field("idem.scope"), Some("p11"), "{event:#?}");
    assert_eq!(event.field("idem.key"), Some(key), "{event:#?}");
    event
}

fn is_normal(event: &Heard) -> bool {
    event.level >= Level::INFO
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = fact, store = db, scope = "p11", delivery = delivery, retry = 2)]
        async fn retried(db: &mut Conn, fact: &str, delivery: u64, failures: &std::sync::atomic::AtomicUsize) -> Result<(), String> {
            credit(db, "a", 1).await.map_err(|error| error.to_string())?;
            if failures.load(std::sync::atomic::Ordering::SeqCst) > 0 {
                failures.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                return Err("not yet".to_owned());
            }
            Ok(())
        }
    }

    async fn first_and_duplicate_are_normal_and_name_both_deliveries(lab: Lab) {
        let listener = Listener::start();
        lab.store.verify().await.unwrap();
        assert!(listener.outcomes().is_empty(), "looking at the table is no delivery");
        assert!(lab.store.once(key("one", "d-1"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        assert!(is_normal(&only(&listener, "first", "d-1", "one")));
        assert!(lab.store.once(key("one", "d-2"), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        let duplicate = only(&listener, "duplicate", "d-2", "one");
        assert!(is_normal(&duplicate));
        assert_eq!(duplicate.field("first.delivery.id"), Some("d-1"));
    }

    async fn busy_and_failed_are_told_once_each(lab: Lab) {
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(1))).await;
        store.verify().await.unwrap();
        let listener = Listener::start();
        let holder = lab.store.claim(key("one", "d-1")).await.unwrap();
        let busy = store.once(key("one", "d-2"), async |db| credit(db, "a", 1).await).await;
        assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
        assert!(is_normal(&only(&listener, "busy", "d-2", "one")));
        drop(holder);
        let dropped = only(&listener, "failed", "d-1", "one");
        assert_eq!(dropped.field("reason"), Some("cancelled"));

        let failed = store.once(key("two", "d-3"), async |_| -> Result<(), &str> { Err("no") }).await;
        assert!(matches!(failed, Err(Error::Body("no"))));
        let failed = only(&listener, "failed", "d-3", "two");
        assert_eq!((failed.level, failed.field("reason")), (Level::WARN, Some("body")));
    }

    async fn a_swallowed_error_or_a_key_that_cannot_be_used_is_a_failed_delivery(lab: Lab) {
        lab.store.verify().await.unwrap();
        let listener = Listener::start();
        let ended = lab.store.once(key("one", "d-1"), async |db| {
            let _ = raw(db, "ROLLBACK").await;
            Ok::<_, sqlx::Error>(())
        }).await;
        assert!(matches!(ended, Err(Error::TransactionEnded(_))), "{ended:?}");
        assert_eq!(only(&listener, "failed", "d-1", "one").level, Level::ERROR);

        let blank = lab.store.once(key(" ", "d-2"), async |db| credit(db, "a", 1).await).await;
        assert!(matches!(blank, Err(Error::Key(KeyError::Blank { .. }))), "{blank:?}");
        let heard = listener.outcomes();
        assert_eq!(heard.len(), 1, "{heard:#?}");
        assert_eq!(heard[0].field("idem.outcome"), Some("failed"));
        assert_eq!((heard[0].field("idem.scope"), heard[0].field("delivery.id")), (Some("p11"), Some("d-2")));
    }

    async fn repetitions_of_a_unit_are_one_delivery(lab: Lab) {
        lab.store.verify().await.unwrap();
        let listener = Listener::start();
        assert!(retried(&lab.store, "one", 1, &2.into()).await.unwrap().is_first());
        only(&listener, "first", "1", "one");
        assert!(retried(&lab.store, "two", 2, &3.into()).await.is_err());
        only(&listener, "failed", "2", "two");
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_failure_that_no_repetition_cures_is_told_though_some_are_left(lab: Lab) {
        lab.store.verify().await.unwrap();
        let listener = Listener::start();
        let claim = idem_runtime::Retry::new(key("one", "d-1"), 3);
        let idem_runtime::Claim::First(mut unit) = claim.claim(&lab.store).await.unwrap() else { panic!("not first") };
        let _ = raw(unit.connection(), "COMMIT").await;
        let ended = unit.commit::<_, String>(()).await;
        assert!(matches!(ended, Err(Error::TransactionEnded(_))), "{ended:?}");
        only(&listener, "failed", "d-1", "one");
    }

    async fn a_late_repeat_is_a_warning(lab: Lab) {
        lab.store.verify().await.unwrap();
        assert!(lab.store.once(key("one", "d-1"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        let mut connection = lab.pool.acquire().await.unwrap();
        raw(&mut connection, "UPDATE idem_records SET keep_until = claimed_at").await.unwrap();
        drop(connection);
        let listener = Listener::start();
        assert!(lab.store.once(key("one", "d-2"), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        let late = only(&listener, "duplicate", "d-2", "one");
        assert_eq!((late.level, late.field("late")), (Level::WARN, Some("true")));
    }
}

/// Counts by name and labels, for the thread that it is set on.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, u64>>>);

struct Count(Counts, String);

impl metrics::CounterFn for Count {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {}
}

impl metrics::Recorder for Counts {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        metrics::Counter::from_arc(Arc::new(Count(self.clone(), format!("{} {}", key.name(), labels.join(" ")))))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

/// On SQLite only: what is counted is what is logged, and that is tested on every database above.
#[test]
fn deliveries_are_counted_under_the_label_of_the_log() {
    let counts = Counts::default();
    metrics::with_local_recorder(&counts, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lab = idem_tests::sqlite::Lab::new().await;
            for _ in 0..3 {
                let _ = lab.store.once(key("one", "d"), async |_| Ok::<_, String>(())).await.unwrap();
            }
            lab.store.once(key("two", "d"), async |_| Err::<(), _>("no")).await.unwrap_err();
            lab.store.once(key(" ", "d"), async |_| Ok::<_, String>(())).await.unwrap_err();
            lab.close().await;
        });
    });
    let counted: Vec<(String, u64)> = counts.0.lock().unwrap().clone().into_iter().collect();
    let expected = [("duplicate", 2), ("failed", 2), ("first", 1)];
    let expected = expected.map(|(outcome, n)| (format!("idem_deliveries_total scope=p11 outcome={outcome}"), n));
    assert_eq!(counted, expected);
}
