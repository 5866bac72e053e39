//! A result that is kept in the unit comes back with every repeat, as itself. A result that looks like nothing is one, too.

use idem_runtime::{Claim, Decision, Error, Keep, Key, KeyError, Outcome, Replay, Replayable, Unavailable, idempotent};
use idem_tests::cancel::{
    Moment::{Answered, Asked},
    drop_at,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::atomic::{AtomicUsize, Ordering},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    no: String,
    cents: i64,
    note: Option<String>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Line {
    Empty,
    Item(u32, char),
    Refund { of: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Nothing;

fn receipt() -> Receipt {
    Receipt {
        no: "单号 \"A'1\"\n\u{0}\\".to_owned(),
        cents: -5,
        note: None,
        lines: vec![Line::Empty, Line::Item(7, '€'), Line::Refund { of: String::new() }],
    }
}

fn key(no: &str) -> Result<Key, KeyError> {
    Key::scope("claims.replay.hand").part(no).delivery(no).finish()
}

/// Numbers that a careless reader of decimal text gets wrong by the last bit.
fn awkward_numbers() -> Vec<f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut numbers = vec![0.1 + 0.2, f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0, 1e23, 123_456_789.123_456_78];
    while numbers.len() < 2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = f64::from_bits(state);
        if number.is_finite() {
            numbers.push(number);
        }
    }
    numbers
}

idem_tests::on_every_database! {
    given {
        /// Keeps a value for an action, and asks for it twice.
        async fn replays<T>(lab: &Lab, no: &str, value: T)
        where
            T: Replayable + Clone + PartialEq + Debug + Serialize,
        {
            let keep = Keep::new();
            let Claim::First(mut unit) = lab.store.claim(key(no)).await.unwrap() else { panic!("{no}: not first") };
            credit(unit.connection(), "a", 1).await.unwrap();
            let first = unit.commit_and_keep::<_, sqlx::Error>(value.clone(), &keep).await.unwrap();
            assert_eq!(first, Outcome::First(value.clone()), "{no}");
            for _ in 0..2 {
                let Claim::Duplicate(seen) = lab.store.claim(key(no)).await.unwrap() else { panic!("{no}: no repeat") };
                assert_eq!(seen.delivery_id.as_deref(), Some(no));
                assert_eq!(seen.replay(&keep).result, Replay::Value(value.clone()), "{no}");
            }
            let mut bytes = b"json1 1 ok\n".to_vec();
            bytes.extend(serde_json::to_vec(&value).unwrap());
            assert_eq!(stored(lab, no).await, Some(bytes), "{no}");
        }

        /// What stands in the column.
        async fn stored(lab: &Lab, no: &str) -> Option<Vec<u8>> {
            let sql = DIALECT.sql("SELECT result FROM idem_records WHERE action_key = ?");
            let key = key(no).unwrap().text().to_owned();
            let query = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
            // MySQL's keys are bytes.
            match DIALECT {
                Dialect::MySql => query.bind(key.into_bytes()).fetch_one(&lab.pool).await.unwrap(),
                _ => query.bind(key).fetch_one(&lab.pool).await.unwrap(),
            }
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.unit", replay)]
        async fn nothing(db: &mut Conn, no: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.option", replay)]
        async fn perhaps(db: &mut Conn, no: &str) -> Result<Option<Receipt>, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok((no == "some").then(receipt))
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.retry", replay, retry = 2)]
        async fn retried(db: &mut Conn, no: &str, tries: &AtomicUsize) -> Result<usize, String> {
            credit(db, "a", 1).await.map_err(|error| error.to_string())?;
            match tries.fetch_add(1, Ordering::SeqCst) {
                number @ 0..2 => Err(format!("{number} is too early")),
                number => Ok(number),
            }
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.declines", replay(version = 3), declines)]
        async fn decides(db: &mut Conn, no: &str, ready: bool) -> Result<Decision<u64>, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(if ready { Decision::Done(u64::MAX) } else { Decision::retry("not ready") })
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.fails", replay, delivery = delivery)]
        async fn may_fail(db: &mut Conn, no: &str, delivery: u8, fail: bool) -> Result<u8, sqlx::Error> {
            credit(db, "a", 1).await?;
            if fail { Err(sqlx::Error::RowNotFound) } else { Ok(delivery) }
        }

        struct Service {
            store: Db,
            name: String,
        }

        impl Service {
            #[idempotent(key = no, store = self.store, tx = db, scope = "claims.replay.method", replay(limit = 100))]
            async fn greet(&self, db: &mut Conn, no: &str) -> Result<String, sqlx::Error> {
                credit(db, "a", 1).await?;
                Ok(format!("{} {no}", self.name))
            }
        }
    }

    async fn every_value_replays_as_itself(lab: Lab) {
        replays(&lab, "unit", ()).await;
        replays(&lab, "unit-struct", Nothing).await;
        replays(&lab, "none", None::<u8>).await;
        replays(&lab, "some", Some(0_u8)).await;
        replays(&lab, "zero", 0_i32).await;
        replays(&lab, "false", false).await;
        replays(&lab, "empty-text", String::new()).await;
        replays(&lab, "empty-list", Vec::<u8>::new()).await;
        replays(&lab, "empty-map", BTreeMap::<String, u8>::new()).await;
        replays(&lab, "largest", u64::MAX).await;
        replays(&lab, "smallest", i64::MIN).await;
        replays(&lab, "large", (u128::MAX, i128::MIN)).await;
        replays(&lab, "text", "null".to_owned()).await;
        replays(&lab, "newline", "\n".to_owned()).await;
        replays(&lab, "non-ascii", "Zürich 支付 🍣 \u{0} ' \\".to_owned()).await;
        replays(&lab, "struct", receipt()).await;
        replays(&lab, "enum", Line::Refund { of: "A1".to_owned() }).await;
        replays(&lab, "result", Err::<u8, String>("refused".to_owned())).await;
        let map: BTreeMap<i32, BTreeMap<String, Vec<Option<Line>>>> =
            [(-1, [("x".to_owned(), vec![None, Some(Line::Empty)])].into()), (2, BTreeMap::new())].into();
        replays(&lab, "map", map).await;
        replays(&lab, "numbers", awkward_numbers()).await;
        replays(&lab, "bytes", (0..=255).collect::<Vec<u8>>()).await;
        assert_eq!(lab.balance("a").await, lab.claims().await);
    }

    async fn handlers_give_the_first_result_to_repeats(lab: Lab) {
        assert_eq!(nothing(&lab.store, "1").await.unwrap(), Outcome::First(()));
        let Outcome::Duplicate(seen) = nothing(&lab.store, "1").await.unwrap() else { panic!("no repeat") };
        assert_eq!(seen.result, Replay::Value(()));
        for (no, value) in [("none", None), ("some", Some(receipt()))] {
            assert_eq!(perhaps(&lab.store, no).await.unwrap(), Outcome::First(value.clone()));
            let Outcome::Duplicate(seen) = perhaps(&lab.store, no).await.unwrap() else { panic!("no repeat") };
            assert_eq!(seen.result, Replay::Value(value));
        }
        let service = Service { store: lab.store.clone(), name: "Ada".to_owned() };
        assert_eq!(service.greet("1").await.unwrap(), Outcome::First("Ada 1".to_owned()));
        let renamed = Service { name: "Eve".to_owned(), ..service };
        let Outcome::Duplicate(seen) = renamed.greet("1").await.unwrap() else { panic!("no repeat") };
        assert_eq!(seen.result.value().as_deref(), Some("Ada 1"));
        assert_eq!(lab.balance("a").await, 4);
    }

    async fn the_attempt_that_succeeded_is_the_one_whose_result_is_kept(lab: Lab) {
        let tries = AtomicUsize::new(0);
        assert_eq!(retried(&lab.store, "1", &tries).await.unwrap(), Outcome::First(2));
        let Outcome::Duplicate(seen) = retried(&lab.store, "1", &tries).await.unwrap() else { panic!("no repeat") };
        assert_eq!((seen.result, tries.load(Ordering::SeqCst)), (Replay::Value(2), 3));
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_body_that_declined_has_no_result_and_one_that_decided_has(lab: Lab) {
        assert!(decides(&lab.store, "1", false).await.unwrap().is_ignored());
        assert_eq!((lab.claims().await, lab.balance("a").await), (0, 0));
        assert_eq!(decides(&lab.store, "1", true).await.unwrap(), Outcome::First(u64::MAX));
        let Outcome::Duplicate(seen) = decides(&lab.store, "1", false).await.unwrap() else { panic!("no repeat") };
        assert_eq!(seen.result, Replay::Value(u64::MAX));
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_failed_body_leaves_no_result(lab: Lab) {
        let failed = may_fail(&lab.store, "1", 1, true).await;
        assert!(matches!(failed, Err(Error::Body(_))), "{failed:?}");
        assert_eq!(lab.claims().await, 0);
        assert_eq!(may_fail(&lab.store, "1", 2, false).await.unwrap(), Outcome::First(2));
        let Outcome::Duplicate(seen) = may_fail(&lab.store, "1", 3, true).await.unwrap() else { panic!("no repeat") };
        assert_eq!((seen.result, seen.delivery_id.as_deref()), (Replay::Value(2), Some("2")));
    }

    /// A repeat without a result would be a unit of which only half is there.
    async fn dropped_at_any_await_the_result_is_there_with_the_claim_or_not_at_all(lab: Lab) {
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < 500, "the sweep does not end");
                let no = format!("{moment:?}-{wait}");
                let before = lab.balance("a").await;
                let done = drop_at(may_fail(&lab.store, &no, 1, false), wait, moment).await;
                match may_fail(&lab.store, &no, 2, false).await.unwrap() {
                    Outcome::First(value) => assert_eq!(value, 2, "{no}"),
                    Outcome::Duplicate(seen) => assert_eq!(seen.result, Replay::Value(1), "{no}"),
                    Outcome::Ignored(ignored) => panic!("{no}: {ignored:?}"),
                }
                assert_eq!(lab.balance("a").await, before + 1, "{no}");
                if done.is_some() {
                    break;
                }
            }
        }
    }

    async fn a_repeat_of_a_handler_that_kept_nothing_says_so(lab: Lab) {
        let done = lab.store.once(key("1"), async |db| credit(db, "a", 1).await).await.unwrap();
        assert!(done.is_first());
        assert_eq!(stored(&lab, "1").await, None);
        let Claim::Duplicate(seen) = lab.store.claim(key("1")).await.unwrap() else { panic!("no repeat") };
        let seen = seen.replay::<()>(&Keep::new());
        assert_eq!(seen.result, Replay::Unavailable(Unavailable::NotKept));
        // And a handler that asks for no result takes one that is there for a plain repeat.
        replays(&lab, "2", 5).await;
        assert!(lab.store.once(key("2"), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        assert_eq!(lab.balance("a").await, 2);
    }
}
