//! What a gate may answer, what it must leave to the store, and for how long it may remember.

use crate::{
    scripted::{Call, Manner, Scripted},
    until,
};
use idem_runtime::{
    Error, Keep, Key, Payload, Replay, Retention,
    gate::{Finished, InFlight, Look},
};
use std::time::Duration;

fn key(fact: &str) -> Key {
    Key::scope("gate").part(fact).delivery("d-1").finish().unwrap()
}

fn key_of(amount: i64) -> Key {
    Key::scope("gate").part("one").payload(Payload::new().part(&amount)).finish().unwrap()
}

fn says_finished() -> Look {
    Look::Finished { finished: Finished::default(), left: Duration::from_mins(1) }
}

idem_tests::on_every_database! {
    given {
        use Dialect::{MySql, Postgres, Sqlite};

        /// Sets the end of every record's retention, in seconds from now.
        async fn keep_for(lab: &Lab, seconds: i64) {
            let then = match DIALECT {
                Sqlite => format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '{seconds} seconds')"),
                Postgres => format!("now() + interval '{seconds} seconds'"),
                MySql => format!("utc_timestamp(6) + INTERVAL {seconds} SECOND"),
            };
            let mut db = lab.pool.acquire().await.unwrap();
            raw(&mut db, &format!("UPDATE idem_records SET keep_until = {then}")).await.unwrap();
        }
    }

    async fn a_hit_does_not_touch_the_database(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        store.pool().close().await;
        let hit = store.once(key("one"), async |db| credit(db, "a", 100).await).await;
        assert!(matches!(&hit, Ok(outcome) if outcome.is_duplicate()), "{hit:?}");
        let miss = store.once(key("two"), async |db| credit(db, "a", 100).await).await;
        assert!(matches!(miss, Err(Error::Database(_))), "the pool is closed: {miss:?}");
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
    }

    async fn another_payload_is_the_stores_error_with_both_times(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        assert!(store.once(key_of(100), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert!(gate.knows(&key_of(100)));
        match store.once(key_of(200), async |db| credit(db, "a", 200).await).await {
            Err(Error::PayloadMismatch(mismatch)) => assert!(mismatch.first_at <= mismatch.now, "{mismatch:?}"),
            other => panic!("{other:?}"),
        }
        assert!(store.once(key_of(100), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    /// The mistake is told as soon as it can be, and not put off as busy. Case C38.
    async fn another_payload_while_the_first_runs_is_not_busy(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        let idem_runtime::Claim::First(mut unit) = store.claim(key_of(100)).await.unwrap() else { panic!("not first") };
        credit(unit.connection(), "a", 100).await.unwrap();
        let same = store.once(key_of(100), async |db| credit(db, "a", 100).await).await;
        assert!(matches!(same, Err(Error::Busy(idem_runtime::Busy::InFlight { .. }))), "{same:?}");
        let other = store.clone();
        let other = tokio::spawn(async move { other.once(key_of(200), async |db| credit(db, "a", 200).await).await });
        lab.wait_until_blocked(1).await;
        assert!(unit.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        let other = other.await.unwrap();
        assert!(matches!(other, Err(Error::PayloadMismatch(_))), "{other:?}");
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    async fn a_result_comes_from_the_store(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        let keep = Keep::<i64>::new();
        let idem_runtime::Claim::First(unit) = store.claim(key("one")).await.unwrap() else { panic!("not first") };
        assert!(unit.commit_and_keep::<_, sqlx::Error>(42, &keep).await.unwrap().is_first());
        assert!(gate.knows(&key("one")));
        for _ in 0..2 {
            gate.calls();
            let idem_runtime::Claim::Duplicate(seen) = store.claim(key("one")).await.unwrap() else { panic!("not a duplicate") };
            assert_eq!(seen.replay(&keep).result, Replay::Value(42));
            // Repeats of what is finished are not in each other's way, and there is nothing new to remember.
            assert_eq!(gate.calls(), [Call::Look]);
        }
        store.pool().close().await;
    }

    async fn a_hit_without_a_row_runs_under_confirm(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone()).confirm(true)).await;
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        // The database is restored from before the action.
        let mut db = lab.pool.acquire().await.unwrap();
        raw(&mut db, "DELETE FROM idem_records").await.unwrap();
        raw(&mut db, "UPDATE accounts SET balance = 0").await.unwrap();
        drop(db);
        let failed = store.once(key("one"), async |_| {
            // Forgotten by now, so that a process which dies here leaves no lie behind.
            assert!(!gate.knows(&key("one")));
            Err::<(), _>("no")
        }).await;
        assert!(matches!(failed, Err(Error::Body("no"))), "{failed:?}");
        assert!(!gate.knows(&key("one")));
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    async fn a_gate_that_lies_cannot_lose_what_it_cannot_answer(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        for (fact, finished) in [
            ("result", Finished { has_result: true, ..Finished::default() }),
            ("garbage", Finished { fingerprint: Some(b"garbage".to_vec()), ..Finished::default() }),
            ("empty", Finished { fingerprint: Some(Vec::new()), ..Finished::default() }),
        ] {
            gate.behave(Manner::Says(Look::Finished { finished, left: Duration::MAX }));
            let fact = Key::scope("gate").part(fact).payload(Payload::new().part(&100_i64)).finish();
            assert!(store.once(fact, async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (300, 3));
        for first_at in [i64::MIN, -1, i64::MAX] {
            let finished = Finished { first_at: Some(first_at), ..Finished::default() };
            gate.behave(Manner::Says(Look::Finished { finished, left: Duration::ZERO }));
            assert!(store.once(key("result"), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        }
        store.pool().close().await;
    }

    /// Counted from the claim, since the record's own time is.
    async fn the_memory_of_a_first_ends_before_its_record(lab: Lab) {
        let gate = Scripted::default();
        let retention = Duration::from_secs(100);
        let store = lab.other_store(Lab::builder().gate(gate.clone()).retention(Retention::of(retention))).await;
        let work = Duration::from_millis(300);
        let done = store.once(key("one"), async |db| {
            tokio::time::sleep(work).await;
            credit(db, "a", 100).await
        }).await;
        assert!(done.unwrap().is_first());
        let [(_, keep)] = &gate.remembered()[..] else { panic!("not remembered once") };
        assert!(*keep <= retention.checked_sub(work).unwrap(), "{keep:?}");
        assert!(*keep > retention / 2, "{keep:?}");
        store.pool().close().await;
    }

    async fn the_memory_of_a_repeat_ends_before_its_record(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        assert!(lab.store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        keep_for(&lab, 90).await;
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        let [(finished, keep)] = &gate.remembered()[..] else { panic!("not remembered once") };
        assert!(*keep <= Duration::from_secs(90) && *keep > Duration::from_secs(20), "{keep:?}");
        assert!(finished.first_at.is_some());
        store.pool().close().await;
        // What the gate learnt from the store it tells.
        match store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap() {
            idem_runtime::Outcome::Duplicate(seen) => {
                assert!(seen.first_at.is_some() && !seen.late);
                assert_eq!(seen.delivery_id.as_deref(), Some("d-1"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
    }

    /// It may be purged at any moment, and says that it is late, which a gate would not.
    async fn a_late_record_is_not_remembered(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        assert!(lab.store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        keep_for(&lab, -5).await;
        match store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap() {
            idem_runtime::Outcome::Duplicate(seen) => assert!(seen.late),
            other => panic!("{other:?}"),
        }
        assert!(gate.remembered().is_empty());
        store.pool().close().await;
    }

    async fn a_repeat_that_the_store_recognised_leaves_no_mark(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        assert!(lab.store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        assert_eq!(gate.mark_of(&key("one")), None);
        assert!(gate.calls().iter().any(|call| matches!(call, Call::Release(_))));
        store.pool().close().await;
    }

    /// A guard alone leaves no record, so there is nothing for a gate to know.
    async fn a_mark_of_one_action_is_none_of_anothers(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        gate.put_mark(&key("one"), InFlight { owner: "another".to_owned(), fingerprint: None });
        assert!(store.once(key("two"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert_eq!(lab.balance("a").await, 100);
        store.pool().close().await;
    }

    /// Documented trust: what a gate remembers was committed. This is what `confirm` is for.
    async fn without_confirm_a_hit_is_trusted(lab: Lab) {
        let gate = Scripted::default();
        gate.behave(Manner::Says(says_finished()));
        let trusting = lab.other_store(Lab::builder().gate(gate.clone())).await;
        assert!(trusting.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        let confirming = lab.other_store(Lab::builder().gate(gate.clone()).confirm(true)).await;
        assert!(confirming.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        until("no mark", async || gate.mark_of(&key("one")).is_none()).await;
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        trusting.pool().close().await;
        confirming.pool().close().await;
    }
}
