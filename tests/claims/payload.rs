//! Same key, other payload: a mistake of the sender, or fraud. Neither run nor quietly taken for a repeat, whenever it
//! comes. Case C38.

use idem_runtime::{Advice, Claim, Error, Key, KeyError, Outcome, Payload, PayloadMismatch, idempotent};
use idem_tests::logs::Listener;
use sqlx::AssertSqlSafe;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};
use tracing::Level;

/// 2026-01-31T08:15:00Z.
const FIRST_AT: u64 = 1_769_847_300;

struct Pay {
    no: &'static str,
    delivery: &'static str,
    amount: i64,
    currency: &'static str,
    note: Option<&'static str>,
}

/// The same message as another sender declares it.
struct PayAgain {
    currency: String,
    extra: u8,
    amount: u16,
    no: String,
}

fn pay_of(no: &'static str, delivery: &'static str, amount: i64) -> Pay {
    Pay { no, delivery, amount, currency: "CNY", note: None }
}

fn key(no: &str, delivery: &str, payload: Payload) -> Result<Key, KeyError> {
    Key::scope("claims.payload.hand").part(no).delivery(delivery).payload(payload).finish()
}

fn amount(amount: i64) -> Payload {
    Payload::new().part(&amount)
}

fn mismatch<T: std::fmt::Debug>(result: Result<Outcome<T>, Error<sqlx::Error>>) -> PayloadMismatch {
    match result {
        Err(Error::PayloadMismatch(mismatch)) => mismatch,
        other => panic!("no mismatch: {other:?}"),
    }
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = msg.no, store = db, scope = "claims.payload", delivery = msg.delivery,
            payload = msg.amount + ":" + msg.currency)]
        async fn pay(db: &mut Conn, msg: &Pay) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }

        #[idempotent(key = msg.no, store = db, scope = "claims.payload", payload = msg.amount + ":" + msg.currency)]
        async fn pay_again(db: &mut Conn, msg: &PayAgain) -> Result<(), sqlx::Error> {
            assert_eq!(msg.extra, 7);
            credit(db, "a", i64::from(msg.amount)).await
        }

        /// As the handler was before it compared payloads.
        #[idempotent(key = msg.no, store = db, scope = "claims.payload", delivery = msg.delivery)]
        async fn pay_before(db: &mut Conn, msg: &Pay) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }

        /// As the handler is when it compares something else.
        #[idempotent(key = msg.no, store = db, scope = "claims.payload", delivery = msg.delivery,
            payload = "msg.amount + ':' + msg.currency + ':' + msg.note")]
        async fn pay_after(db: &mut Conn, msg: &Pay) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }

        #[idempotent(key = msg.no, store = db, scope = "claims.payload.note", payload = msg.note)]
        async fn noted(db: &mut Conn, msg: &Pay) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }

        #[idempotent(key = msg.no, store = db, scope = "claims.payload", payload = msg.amount + ":" + msg.currency, retry = 3)]
        async fn retried(db: &mut Conn, msg: &Pay, entered: &AtomicUsize) -> Result<(), sqlx::Error> {
            entered.fetch_add(1, Ordering::SeqCst);
            credit(db, "a", msg.amount).await
        }

        /// Moves the first time to one that is known.
        async fn claimed_in_january(lab: &Lab) {
            let at = match DIALECT {
                Dialect::Sqlite => "2026-01-31T08:15:00.000Z",
                Dialect::Postgres => "2026-01-31 08:15:00+00",
                Dialect::MySql => "2026-01-31 08:15:00",
            };
            let mut db = lab.pool.acquire().await.unwrap();
            raw(&mut db, &format!("UPDATE idem_records SET claimed_at = '{at}'")).await.unwrap();
        }

        /// The database's clock, in milliseconds.
        async fn now(lab: &Lab) -> SystemTime {
            let millis = lab.number(match DIALECT {
                Dialect::Sqlite => "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
                Dialect::Postgres => "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                Dialect::MySql => "SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP('1970-01-01'), UTC_TIMESTAMP(6)) DIV 1000",
            }).await;
            SystemTime::UNIX_EPOCH + Duration::from_millis(millis.try_into().unwrap())
        }
    }

    async fn after_completion_another_payload_is_a_mismatch_that_names_both_times(lab: Lab) {
        assert!(pay(&lab.store, &pay_of("1", "d-1", 100)).await.unwrap().is_first());
        claimed_in_january(&lab).await;
        let listener = Listener::start();
        let before = now(&lab).await;
        let refused = pay(&lab.store, &pay_of("1", "d-2", 200)).await.unwrap_err();
        let after = now(&lab).await;
        assert!(!refused.is_retryable());
        assert_eq!((refused.advice(), refused.label()), (Advice::DeadLetter, "failed"));
        let text = refused.to_string();
        assert!(text.contains("first at 2026-01-31T08:15:00Z"), "{text}");
        assert!(text.contains("first delivery d-1") && text.contains("claims.payload/1"), "{text}");
        let refused = mismatch::<()>(Err(refused));
        assert_eq!(refused.first_at, SystemTime::UNIX_EPOCH + Duration::from_secs(FIRST_AT));
        // SQLite's clock is one of milliseconds that is rounded.
        let slack = Duration::from_millis(2);
        assert!(before <= refused.now + slack && refused.now <= after + slack, "{before:?} {refused:?} {after:?}");
        assert_eq!((refused.key.as_str(), refused.first_delivery.as_deref()), ("claims.payload/1", Some("d-1")));

        let heard = listener.outcomes();
        let [event] = &heard[..] else { panic!("{heard:#?}") };
        assert_eq!((event.level, event.field("idem.outcome")), (Level::WARN, Some("failed")));
        assert_eq!((event.field("delivery.id"), event.field("idem.key")), (Some("d-2"), Some("1")));
        assert!(event.field("error").is_some_and(|error| error.contains("another payload")), "{event:#?}");

        // Nothing of it is left: the action is still the first one's.
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        assert!(pay(&lab.store, &pay_of("1", "d-3", 100)).await.unwrap().is_duplicate());
        let other_currency = Pay { currency: "USD", ..pay_of("1", "d-4", 100) };
        mismatch(pay(&lab.store, &other_currency).await);
        assert_eq!(lab.balance("a").await, 100);
    }

    async fn while_the_first_runs_another_payload_waits_and_is_a_mismatch(lab: Lab) {
        for (no, commits) in [("commits", true), ("fails", false)] {
            let before = lab.balance("a").await;
            let claim = lab.store.claim(key(no, "d-1", amount(100))).await.unwrap();
            let Claim::First(mut holder) = claim else { panic!("not first") };
            credit(holder.connection(), "a", 100).await.unwrap();
            let waiting = lab.store.once(key(no, "d-2", amount(200)), async |db| credit(db, "a", 200).await);
            let ending = async {
                lab.wait_until_blocked(1).await;
                if commits {
                    assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
                } else {
                    drop(holder);
                }
            };
            let (second, ()) = tokio::join!(waiting, ending);
            if commits {
                assert_eq!(mismatch(second).first_delivery.as_deref(), Some("d-1"));
                assert_eq!(lab.balance("a").await, before + 100);
            } else {
                // Nothing happened the first time, so there is nothing to differ from.
                assert!(second.unwrap().is_first());
                assert_eq!(lab.balance("a").await, before + 200);
            }
        }
    }

    async fn with_a_short_wait_it_is_busy_and_a_mismatch_when_it_comes_again(lab: Lab) {
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_millis(300))).await;
        let claim = lab.store.claim(key("1", "d-1", amount(100))).await.unwrap();
        let Claim::First(mut holder) = claim else { panic!("not first") };
        credit(holder.connection(), "a", 100).await.unwrap();
        let busy = store.once(key("1", "d-2", amount(200)), async |db| credit(db, "a", 200).await).await;
        assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
        assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        mismatch(store.once(key("1", "d-2", amount(200)), async |db| credit(db, "a", 200).await).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    async fn of_many_at_once_one_is_first_and_its_like_are_repeats(lab: Lab) {
        let mut all = Vec::new();
        for number in 0..8 {
            let store = lab.store.clone();
            all.push(tokio::spawn(async move {
                let paid = 100 + number % 4;
                let done = store.once(key("1", "d", amount(paid)), async |db| credit(db, "a", paid).await).await;
                (paid, done)
            }));
        }
        let (mut firsts, mut duplicates, mut mismatches) = (Vec::new(), Vec::new(), 0);
        for one in all {
            match one.await.unwrap() {
                (paid, Ok(Outcome::First(()))) => firsts.push(paid),
                (paid, Ok(Outcome::Duplicate(_))) => duplicates.push(paid),
                (_, Err(Error::PayloadMismatch(_))) => mismatches += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((firsts.len(), duplicates.len(), mismatches), (1, 1, 6));
        assert_eq!(firsts, duplicates);
        assert_eq!(lab.balance("a").await, firsts[0]);
    }

    async fn the_same_meaning_is_a_repeat_however_it_was_written(lab: Lab) {
        assert!(pay(&lab.store, &pay_of("1", "d-1", 100)).await.unwrap().is_first());
        let again = PayAgain { currency: "CNY".to_owned(), extra: 7, amount: 100, no: "1".to_owned() };
        assert!(pay_again(&lab.store, &again).await.unwrap().is_duplicate());
        mismatch(pay_again(&lab.store, &PayAgain { amount: 101, ..again }).await);
        assert_eq!(lab.balance("a").await, 100);
    }

    async fn a_missing_value_is_no_empty_one_and_separators_in_values_are_none(lab: Lab) {
        let notes = [None, Some(""), Some("%none"), Some("none"), Some(" "), Some("\u{e9}"), Some("e\u{301}"), Some("E")];
        for (number, note) in notes.into_iter().enumerate() {
            let no = ["0", "1", "2", "3", "4", "5", "6", "7"][number];
            assert!(noted(&lab.store, &Pay { note, ..pay_of(no, "d", 1) }).await.unwrap().is_first());
            for other in notes {
                let again = noted(&lab.store, &Pay { note: other, ..pay_of(no, "d", 1) }).await;
                if other == note {
                    assert!(again.unwrap().is_duplicate(), "{note:?}");
                } else {
                    mismatch(again);
                }
            }
        }
        let two = |a: &str, b: &str| key("two", "d", Payload::new().part(a).text(":").part(b));
        for (number, (a, b)) in [("1:2", "3"), ("1|2", "3"), ("1%3A2", "3"), ("", "1:23")].into_iter().enumerate() {
            let done = lab.store.once(two(a, b), async |db| credit(db, "b", 1).await).await;
            if number == 0 { assert!(done.unwrap().is_first()) } else { mismatch(done); }
        }
        mismatch(lab.store.once(two("1", "2:3"), async |db| credit(db, "b", 1).await).await);
        assert_eq!((lab.balance("a").await, lab.balance("b").await), (8, 1));
    }

    async fn records_from_before_the_payload_was_compared_are_plain_repeats(lab: Lab) {
        assert!(pay_before(&lab.store, &pay_of("1", "d-1", 100)).await.unwrap().is_first());
        let listener = Listener::start();
        assert!(pay(&lab.store, &pay_of("1", "d-2", 200)).await.unwrap().is_duplicate());
        let heard = listener.events();
        assert!(heard.iter().all(|event| event.level >= Level::INFO), "{heard:#?}");
        // And the other way round, when a handler no longer compares.
        assert!(pay(&lab.store, &pay_of("2", "d-1", 100)).await.unwrap().is_first());
        assert!(pay_before(&lab.store, &pay_of("2", "d-2", 200)).await.unwrap().is_duplicate());
        assert_eq!(lab.balance("a").await, 200);
    }

    async fn where_the_handler_compares_something_else_now_a_repeat_is_one_with_a_warning(lab: Lab) {
        assert!(pay(&lab.store, &pay_of("1", "d-1", 100)).await.unwrap().is_first());
        let listener = Listener::start();
        assert!(pay_after(&lab.store, &pay_of("1", "d-2", 200)).await.unwrap().is_duplicate());
        let heard = listener.events();
        let warnings: Vec<_> = heard.iter().filter(|event| event.level < Level::INFO).collect();
        assert_eq!(warnings.len(), 1, "{heard:#?}");
        assert_eq!((warnings[0].level, warnings[0].field("idem.outcome")), (Level::WARN, None));
        assert_eq!(warnings[0].field("idem.key"), Some("1"));
        assert_eq!(heard.iter().filter(|event| event.field("idem.outcome") == Some("duplicate")).count(), 1);
        // A fingerprint of a later version of this library is one of another shape, too.
        let mut db = lab.pool.acquire().await.unwrap();
        let sql = AssertSqlSafe(DIALECT.sql("UPDATE idem_records SET fingerprint = ?"));
        sqlx::query(sql).bind(b"\x02of another make".to_vec()).execute(&mut *db).await.unwrap();
        drop(db);
        assert!(pay(&lab.store, &pay_of("1", "d-3", 200)).await.unwrap().is_duplicate());
        assert_eq!(lab.balance("a").await, 100);
    }

    async fn a_mismatch_is_not_repeated(lab: Lab) {
        assert!(pay(&lab.store, &pay_of("1", "d-1", 100)).await.unwrap().is_first());
        let entered = AtomicUsize::new(0);
        let listener = Listener::start();
        mismatch(retried(&lab.store, &pay_of("1", "d-2", 200), &entered).await);
        assert_eq!(listener.events().len(), 1, "one event and no restart");
        assert_eq!((entered.load(Ordering::SeqCst), lab.balance("a").await), (0, 100));
    }

    async fn a_failed_first_leaves_no_fingerprint(lab: Lab) {
        let failed = lab.store.once(key("1", "d-1", amount(100)), async |_| Err::<(), _>(sqlx::Error::RowNotFound)).await;
        assert!(matches!(failed, Err(Error::Body(_))));
        let done = lab.store.once(key("1", "d-2", amount(200)), async |db| credit(db, "a", 200).await).await;
        assert!(done.unwrap().is_first());
        mismatch(lab.store.once(key("1", "d-1", amount(100)), async |db| credit(db, "a", 100).await).await);
        assert_eq!(lab.balance("a").await, 200);
    }
}
