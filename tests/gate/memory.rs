//! The gate in the memory of the process.

use crate::until;
use idem_runtime::{
    Key,
    gate::{Finished, Gate as _, Look, MemoryGate},
};
use std::time::Duration;

fn key(fact: &str) -> Key {
    Key::scope("gate.memory").part(fact).finish().unwrap()
}

fn finished() -> Finished {
    Finished {
        first_at: Some(1_767_225_600_000),
        delivery_id: Some("d-1".to_owned()),
        fingerprint: Some(vec![1, 2, 3]),
        has_result: true,
    }
}

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn what_is_remembered_is_found_whole_and_what_is_forgotten_is_not() {
    idem_tests::run(async {
        let gate = MemoryGate::new(10);
        assert_eq!(gate.look(&key("one")).await, Look::Unknown);
        gate.remember(&key("one"), &finished(), HOUR).await;
        match gate.clone().look(&key("one")).await {
            Look::Finished { finished: found, left } => {
                assert_eq!(found, finished());
                assert!(left <= HOUR && left > HOUR / 2, "{left:?}");
            }
            Look::Unknown => panic!("not remembered"),
        }
        assert_eq!(gate.look(&key("two")).await, Look::Unknown);
        gate.forget(&key("one")).await;
        assert_eq!(gate.look(&key("one")).await, Look::Unknown);
    });
}

#[test]
fn the_shorter_of_the_two_times_counts() {
    idem_tests::run(async {
        let left = async |gate: &MemoryGate| match gate.look(&key("one")).await {
            Look::Finished { left, .. } => left,
            Look::Unknown => panic!("not remembered"),
        };
        let gate = MemoryGate::new(10).keep(HOUR);
        gate.remember(&key("one"), &finished(), Duration::from_mins(1)).await;
        assert!(left(&gate).await <= Duration::from_mins(1));
        gate.remember(&key("one"), &finished(), Duration::MAX).await;
        assert!(left(&gate).await <= HOUR && left(&gate).await > HOUR / 2);
        let endless = MemoryGate::new(10).keep(Duration::MAX);
        endless.remember(&key("one"), &finished(), Duration::MAX).await;
        assert!(left(&endless).await > HOUR);
    });
}

#[test]
fn what_has_expired_is_unknown() {
    idem_tests::run(async {
        let gate = MemoryGate::new(10);
        gate.remember(&key("one"), &finished(), Duration::ZERO).await;
        assert_eq!(gate.look(&key("one")).await, Look::Unknown);
        gate.remember(&key("one"), &finished(), Duration::from_millis(50)).await;
        until("expired", async || gate.look(&key("one")).await == Look::Unknown).await;
        // A longer time after a shorter one counts too.
        gate.remember(&key("one"), &finished(), HOUR).await;
        assert_ne!(gate.look(&key("one")).await, Look::Unknown);
    });
}

/// New actions are what is delivered again; a cache that keeps its old favourites would not learn them.
#[test]
fn a_full_gate_keeps_the_latest() {
    idem_tests::run(async {
        let gate = MemoryGate::new(100);
        for round in 0..20 {
            for old in 0..50 {
                gate.remember(&key(&format!("old-{old}")), &finished(), HOUR).await;
                gate.look(&key(&format!("old-{old}"))).await;
            }
            assert_ne!(gate.look(&key("old-7")).await, Look::Unknown, "{round}");
        }
        for new in 0..1000 {
            gate.remember(&key(&format!("new-{new}")), &finished(), HOUR).await;
        }
        let mut known = 0;
        for new in 0..1000 {
            known += usize::from(gate.look(&key(&format!("new-{new}"))).await != Look::Unknown);
        }
        assert!((50..=300).contains(&known), "{known} of 1000 in a gate for 100");
        assert_ne!(gate.look(&key("new-999")).await, Look::Unknown);
    });
}

#[test]
fn its_debug_text_shows_no_keys() {
    idem_tests::run(async {
        let gate = MemoryGate::new(100);
        gate.remember(&key("secret"), &finished(), HOUR).await;
        let text = format!("{gate:?}");
        assert!(text.contains("100") && !text.contains("secret") && !text.contains("d-1"), "{text}");
    });
}

idem_tests::on_every_database! {
    given {}

    async fn repeats_are_answered_without_the_database(lab: Lab) {
        let gate = MemoryGate::new(1000);
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        for fact in 0..20 {
            let fact = key(&fact.to_string());
            assert!(store.once(fact.clone(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        }
        store.pool().close().await;
        for fact in 0..20 {
            let fact = key(&fact.to_string());
            assert!(store.once(fact, async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 20));
    }

    async fn a_gate_that_was_emptied_costs_nothing_but_work(lab: Lab) {
        let gate = MemoryGate::new(0);
        let store = lab.other_store(Lab::builder().gate(gate)).await;
        for delivery in 0..3 {
            let outcome = store.once(key("one"), async |db| credit(db, "a", 1).await).await.unwrap();
            assert_eq!(outcome.is_first(), delivery == 0);
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        store.pool().close().await;
    }
}
