//! A gate that hangs or panics, whatever it is asked: the store decides, and little is waited.

use crate::scripted::{Manner, Scripted};
use idem_runtime::Key;
use idem_tests::logs::Listener;
use tracing::Level;

fn key(fact: &str) -> Key {
    Key::scope("gate.trouble").part(fact).finish().unwrap()
}

idem_tests::on_every_database! {
    given {}

    async fn a_gate_that_does_not_work_costs_one_wait_and_no_delivery(lab: Lab) {
        for manner in [Manner::Hangs, Manner::PanicsWhenCalled, Manner::PanicsWhenPolled] {
            let gate = Scripted::default();
            let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
            store.verify().await.unwrap();
            let before = lab.balance("a").await;
            let listener = Listener::start();
            gate.behave(manner.clone());
            let began = std::time::Instant::now();
            for number in 0..20 {
                let fact = key(&format!("{manner:?}-{number}"));
                assert!(store.once(fact.clone(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
                assert!(store.once(fact, async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
            }
            let asked = gate.calls().len();
            // It is tried again once in a second, and left alone otherwise.
            let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
            assert!(asked <= seconds + 2, "{manner:?}: asked {asked} times in {seconds} s by 40 deliveries");
            let warnings: Vec<_> = listener.events().into_iter().filter(|event| event.level <= Level::WARN).collect();
            assert_eq!(warnings.len(), 1, "{manner:?}: {warnings:#?}");
            assert_eq!(lab.balance("a").await, before + 20, "{manner:?}");

            gate.behave(Manner::Honest);
            crate::until("the gate is used again", async || {
                let fact = key(&format!("{manner:?}-after"));
                let _ = store.once(fact.clone(), async |db| credit(db, "b", 1).await).await.unwrap();
                gate.knows(&fact)
            })
            .await;
            let over: Vec<_> = listener.events().into_iter().filter(|event| event.field("lasted").is_some()).collect();
            assert_eq!(over.len(), 1, "{manner:?}: {over:#?}");
            assert_eq!(over[0].level, Level::INFO);
            store.pool().close().await;
        }
        assert_eq!((lab.balance("b").await, lab.claims().await), (3, 63));
    }

    /// Only what comes after COMMIT fails: the action is done all the same, and is not reported as failed.
    async fn a_gate_that_fails_after_commit_fails_nothing(lab: Lab) {
        for manner in [Manner::Hangs, Manner::PanicsWhenCalled, Manner::PanicsWhenPolled] {
            let gate = Scripted::default();
            let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
            let fact = key(&format!("{manner:?}"));
            let outcome = store.once(fact.clone(), async |db| {
                gate.behave(manner.clone());
                credit(db, "a", 1).await
            }).await;
            assert!(outcome.unwrap().is_first(), "{manner:?}");
            assert!(!gate.knows(&fact));
            store.pool().close().await;
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (3, 3));
    }
}
