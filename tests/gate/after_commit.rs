//! A gate is told of an action after COMMIT and at no other time; however the unit ends, its mark is taken away, and nobody
//! else's is.

use crate::{
    scripted::{Call, Scripted},
    until,
};
use idem_runtime::{Busy, Claim, Error, Key, gate::InFlight};
use idem_tests::{
    cancel::{Moment, drop_at},
    proxy::{Cut, Proxy},
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

fn key(fact: &str) -> Key {
    Key::scope("gate").part(fact).delivery("d-1").finish().unwrap()
}

/// The owner's name in the calls of one unit: begun by and released by the same.
fn owner(calls: &[Call]) -> String {
    let begun = calls.iter().find_map(|call| if let Call::Begin(owner) = call { Some(owner.clone()) } else { None });
    begun.expect("no mark was asked for")
}

idem_tests::on_every_database! {
    given {}

    async fn an_action_is_remembered_when_its_record_is_durable(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (pool, found) = (lab.pool.clone(), Arc::clone(&seen));
        gate.at_remember(move || {
            let (pool, found) = (pool.clone(), Arc::clone(&found));
            Box::pin(async move {
                let records: i64 = sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(&pool).await.unwrap();
                found.lock().unwrap().push(records);
            })
        });
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert_eq!(*seen.lock().unwrap(), [1], "seen by another connection when the gate is told");
        let calls = gate.calls();
        let owner = owner(&calls);
        let [Call::Look, Call::Begin(_), Call::Remember(finished, _), Call::Release(released)] = &calls[..] else {
            panic!("{calls:?}")
        };
        assert_eq!(*released, owner);
        assert_eq!(finished.delivery_id.as_deref(), Some("d-1"));
        assert!(!finished.has_result);
        assert_eq!(gate.mark_of(&key("one")), None);
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    /// The gate may be slow, and others need the connection (on SQLite the one writer) meanwhile.
    async fn the_connection_is_given_back_before_the_gate_is_told(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone()).max_connections(1)).await;
        let other = store.clone();
        let done = Arc::new(Mutex::new(None));
        let doing = Arc::clone(&done);
        gate.at_remember(move || {
            let (other, doing) = (other.clone(), Arc::clone(&doing));
            Box::pin(async move {
                // Only once: this unit is remembered too.
                if doing.lock().unwrap().is_none() {
                    *doing.lock().unwrap() = Some(false);
                    let unit = other.claim(key("two"));
                    let claimed = tokio::time::timeout(Duration::from_millis(900), unit).await;
                    *doing.lock().unwrap() = Some(matches!(claimed, Ok(Ok(Claim::First(_)))));
                }
            })
        });
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert_eq!(*done.lock().unwrap(), Some(true), "another unit could not begin while the gate was told");
        store.pool().close().await;
    }

    async fn a_body_that_fails_is_not_remembered_and_its_mark_is_gone(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        let failed = store.once(key("one"), async |db| {
            credit(db, "a", 100).await.unwrap();
            Err::<(), _>("no")
        }).await;
        assert!(matches!(failed, Err(Error::Body("no"))), "{failed:?}");
        let calls = gate.calls();
        assert_eq!(calls, [Call::Look, Call::Begin(owner(&calls)), Call::Release(owner(&calls))]);
        assert_eq!(gate.mark_of(&key("one")), None);
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    async fn only_the_own_mark_is_taken_away(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        let others = InFlight { owner: "another".to_owned(), fingerprint: None };
        let failed = store.once(key("one"), async |_| {
            // The unit took so long that its mark expired, and another delivery has marked the action since.
            gate.expire_mark(&key("one"));
            gate.put_mark(&key("one"), others.clone());
            Err::<(), _>("no")
        }).await;
        assert!(failed.is_err());
        assert_eq!(gate.mark_of(&key("one")), Some(others));
        store.pool().close().await;
    }

    async fn a_panic_is_not_remembered_and_its_mark_is_gone(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        let panicking = store.clone();
        let task = tokio::spawn(async move {
            panicking.once(key("one"), async |db| {
                assert!(credit(db, "a", 100).await.is_err(), "a body that panics");
                Ok::<_, sqlx::Error>(())
            }).await
        });
        assert!(task.await.unwrap_err().is_panic());
        until("the mark is gone", async || gate.mark_of(&key("one")).is_none()).await;
        assert!(gate.remembered().is_empty());
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    async fn a_future_dropped_at_any_wait_leaves_no_mark_and_no_false_memory(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        store.verify().await.unwrap();
        let mut actions = 0;
        for moment in [Moment::Asked, Moment::Answered] {
            for wait in 1.. {
                actions += 1;
                let fact = key(&format!("{moment:?}-{wait}"));
                let delivery = store.once(fact.clone(), async |db| credit(db, "a", 1).await);
                let ended = drop_at(delivery, wait, moment).await;
                until("the mark is gone", async || gate.mark_of(&fact).is_none()).await;
                lab.wait_until_calm().await;
                let recorded = lab.claims().await == actions;
                assert!(recorded || !gate.knows(&fact), "remembered and not committed: {moment:?} {wait}");
                let again = store.once(fact.clone(), async |db| credit(db, "a", 1).await).await.unwrap();
                assert_eq!(again.is_first(), !recorded, "{moment:?} {wait}");
                assert_eq!((lab.balance("a").await, lab.claims().await), (actions, actions), "{moment:?} {wait}");
                if let Some(outcome) = ended {
                    assert!(outcome.unwrap().is_first());
                    assert!(wait > 8, "only {wait} waits: the gate's own are not among them");
                    break;
                }
            }
        }
        store.pool().close().await;
    }

    async fn a_body_that_ended_the_transaction_is_not_remembered(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        for end in ["COMMIT", "ROLLBACK"] {
            for fails in [false, true] {
                // Nothing is durable then, and the body's own error says more.
                if fails && end == "ROLLBACK" {
                    continue;
                }
                let fact = key(&format!("{end}-{fails}"));
                let ended = store.once(fact.clone(), async |db| {
                    raw(db, end).await?;
                    if fails { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
                }).await;
                assert!(matches!(ended, Err(Error::TransactionEnded(_))), "{end} {fails}: {ended:?}");
                until("the mark is gone", async || gate.mark_of(&fact).is_none()).await;
                assert!(gate.remembered().is_empty(), "{end} {fails}");
            }
        }
        store.pool().close().await;
    }

    /// A process that dies leaves its mark behind. Case C15.
    async fn a_mark_that_is_left_behind_is_busy_until_it_expires_and_never_a_duplicate(lab: Lab) {
        let gate = Scripted::default();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        gate.put_mark(&key("one"), InFlight { owner: "of a dead process".to_owned(), fingerprint: None });
        for _ in 0..3 {
            let busy = store.once(key("one"), async |db| credit(db, "a", 100).await).await;
            assert!(
                matches!(busy, Err(Error::Busy(Busy::InFlight { retry_after })) if retry_after == Duration::from_secs(7)),
                "{busy:?}"
            );
            assert!(busy.unwrap_err().is_retryable());
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        gate.expire_mark(&key("one"));
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }
}

async fn proxy_to(url: &str) -> Proxy {
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let address: SocketAddr = rest.split('/').next().unwrap_or_default().parse().expect("an address with a port");
    Proxy::start(address, Duration::ZERO).await.expect("a proxy")
}

mod lost_commits {
    use super::*;

    /// What only the closing statement of a unit holds.
    const COMMIT: &str = "RELEASE SAVEPOINT idem_guard; COMMIT";

    idem_tests::on_every_server! {
        given {}

        async fn a_commit_that_did_not_happen_is_not_remembered(lab: Lab) {
            let gate = Scripted::default();
            let proxy = proxy_to(&lab.url).await;
            let store = Lab::builder().gate(gate.clone()).connect(&proxy.in_url(&lab.url)).await.unwrap();
            proxy.cut_once(COMMIT, Cut::Before).await;
            let lost = store.once(key("one"), async |db| credit(db, "a", 100).await).await;
            assert_eq!(proxy.cuts(), 1);
            assert!(matches!(lost, Err(Error::Database(_))), "{lost:?}");
            assert!(gate.remembered().is_empty());
            assert_eq!(gate.mark_of(&key("one")), None);
            assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
            assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
            store.pool().close().await;
        }

        async fn a_commit_found_to_have_happened_is_remembered(lab: Lab) {
            let gate = Scripted::default();
            let proxy = proxy_to(&lab.url).await;
            let store = Lab::builder().gate(gate.clone()).connect(&proxy.in_url(&lab.url)).await.unwrap();
            proxy.cut_once(COMMIT, Cut::After).await;
            assert!(store.once(key("one"), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
            assert_eq!(proxy.cuts(), 1);
            assert_eq!(gate.remembered().len(), 1);
            assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
            store.pool().close().await;
        }

        async fn a_commit_of_which_nobody_knows_is_not_remembered(lab: Lab) {
            let gate = Scripted::default();
            let proxy = proxy_to(&lab.url).await;
            let builder = Lab::builder().gate(gate.clone()).acquire_timeout(Duration::from_millis(200));
            let store = builder.connect(&proxy.in_url(&lab.url)).await.unwrap();
            let Claim::First(mut unit) = store.claim(key("one")).await.unwrap() else { panic!("not first") };
            credit(unit.connection(), "a", 100).await.unwrap();
            proxy.break_all();
            proxy.refuse(true);
            let unknown = unit.commit::<_, sqlx::Error>(()).await;
            assert!(matches!(unknown, Err(Error::CommitUnknown(_))), "{unknown:?}");
            assert!(gate.remembered().is_empty());
            assert_eq!(gate.mark_of(&key("one")), None);
            store.pool().close().await;
        }
    }
}
