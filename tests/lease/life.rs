//! From the first delivery to the last repeat.

use crate::place::{LEASE, Place as _, begin, first, key, on_every_place};
use idem_runtime::{
    Advice, Begun, ClaimError, Decision, Error, Handled, Keep, Key, KeyError, Leases, Outcome, Payload, Replay, Then,
    Unavailable,
};
use idem_tests::logs::Listener;
use std::{collections::HashSet, io, time::Duration};

fn paid(fact: &str, amount: i64) -> Result<Key, KeyError> {
    Key::scope(crate::place::SCOPE).part(fact).delivery("d-1").payload(Payload::new().part(&amount)).finish()
}

/// What `#[idempotent(key = .., store = leases, lease = "30s")]` writes.
async fn send_sms(leases: &impl Leases, fact: &str, fail: bool) -> Handled<Result<u64, String>> {
    let held = match leases.begin(key(fact), LEASE).await? {
        Begun::First(held) => held,
        Begun::Duplicate(seen) => return Ok(Outcome::Duplicate(seen)),
    };
    let lease = held.lease();
    let result = async move {
        if fail {
            return Err(format!("attempt {} failed", lease.attempts()));
        }
        Ok(lease.attempts())
    }
    .await;
    match result {
        Ok(value) => held.complete(value).await,
        Err(error) => held.give_back(error).await,
    }
}

/// Handlers run in tasks of a runtime with threads.
fn spawnable<F: Future + Send>(future: F) -> F {
    future
}

on_every_place! {
    async fn done_once_and_then_a_duplicate(lab: Lab) {
        assert_eq!(spawnable(send_sms(&lab.store, "a", false)).await.unwrap(), Outcome::First(1));
        for _ in 0..2 {
            let Outcome::Duplicate(seen) = send_sms(&lab.store, "a", false).await.unwrap() else { panic!("ran again") };
            assert!(!seen.late);
            assert_eq!(seen.delivery_id.as_deref(), Some("d-1"));
            assert!(seen.first_at.is_some());
        }
        let written = lab.written("a").await.unwrap();
        assert_eq!((written.attempts, written.done), (1, true));
    }

    async fn a_failed_body_gives_the_lease_back_and_the_next_delivery_runs_at_once(lab: Lab) {
        for attempt in 1..=2 {
            match send_sms(&lab.store, "a", true).await {
                Err(Error::Body(error)) => assert_eq!(error, format!("attempt {attempt} failed")),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(send_sms(&lab.store, "a", false).await.unwrap(), Outcome::First(3));
        assert!(send_sms(&lab.store, "a", false).await.unwrap().is_duplicate());
    }

    async fn a_body_may_decline(lab: Lab) {
        let Decision::<()>::Declined(decline) = Decision::retry("the order is not here yet") else { unreachable!() };
        let outcome = first(&lab.store, "a").await.decline::<(), (), io::Error>(decline).await.unwrap();
        let Outcome::Ignored(ignored) = &outcome else { panic!("{outcome:?}") };
        assert_eq!((ignored.then, outcome.advice()), (Then::Retry, Advice::RetryLater));
        assert!(send_sms(&lab.store, "a", false).await.unwrap().is_first());
    }

    async fn a_result_is_replayed(lab: Lab) {
        let keep = Keep::new();
        for (fact, value) in [("empty", String::new()), ("text", "sent: ✓ '\"\\".to_owned())] {
            let held = first(&lab.store, fact).await;
            let outcome = held.complete_and_keep::<_, io::Error>(value.clone(), &keep).await.unwrap();
            assert_eq!(outcome, Outcome::First(value.clone()));
            let Ok(Begun::Duplicate(seen)) = begin(&lab.store, key(fact)).await else { panic!("ran again") };
            assert_eq!(seen.replay(&keep).result, Replay::Value(value));
        }
        assert!(first(&lab.store, "none").await.complete::<_, io::Error>(()).await.unwrap().is_first());
        let Ok(Begun::Duplicate(seen)) = begin(&lab.store, key("none")).await else { panic!("ran again") };
        assert_eq!(seen.replay(&keep).result, Replay::Unavailable(Unavailable::NotKept));
    }

    async fn another_payload_is_refused_while_the_work_goes_on_when_it_ran_out_and_when_it_is_done(lab: Lab) {
        let mismatch = async |when: &str| match begin(&lab.store, paid("a", 200)).await {
            Err(ClaimError::PayloadMismatch(mismatch)) => {
                assert_eq!(mismatch.first_delivery.as_deref(), Some("d-1"));
                assert!(mismatch.first_at <= mismatch.now);
            }
            other => panic!("{when}: {other:?}"),
        };
        drop(begin(&lab.store, paid("a", 100)).await.unwrap());
        mismatch("in progress").await;
        assert!(matches!(begin(&lab.store, paid("a", 100)).await, Err(ClaimError::Busy(_))));
        lab.age("a", LEASE).await;
        mismatch("run out").await;
        assert_eq!(lab.written("a").await.unwrap().attempts, 1);
        let Ok(Begun::First(held)) = begin(&lab.store, paid("a", 100)).await else { panic!("not taken over") };
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        mismatch("done").await;
        assert!(matches!(begin(&lab.store, paid("a", 100)).await, Ok(Begun::Duplicate(_))));
        // A handler that compares nothing is not refused.
        assert!(matches!(begin(&lab.store, key("a")).await, Ok(Begun::Duplicate(_))));
    }

    async fn the_providers_key_is_the_same_each_time_and_different_for_each_action(lab: Lab) {
        let held = first(&lab.store, "a").await;
        let text = held.lease().idempotency_key();
        assert_eq!(text, "sms.paid/a");
        assert_eq!(held.lease().key(), &key("a").unwrap());
        drop(held);
        lab.age("a", LEASE).await;
        assert_eq!(first(&lab.store, "a").await.lease().idempotency_key(), text);
        let texts: HashSet<_> = [text, first(&lab.store, "b").await.lease().idempotency_key()].into();
        assert_eq!(texts.len(), 2);
    }

    async fn a_key_that_cannot_be_used_is_refused_before_anything_is_written(lab: Lab) {
        let refused = begin(&lab.store, Key::scope("sms.paid").part(" ").finish()).await;
        assert!(matches!(refused, Err(ClaimError::Key(_))), "{refused:?}");
        assert_eq!(lab.store.unfinished(Duration::ZERO).await.unwrap(), []);
    }
}

/// What a record in a database has and one in Redis has not: a life after its retention, and events on the test's own thread.
mod in_databases {
    use super::*;

    idem_tests::on_every_database! {
        given {}

        async fn a_repeat_after_the_retention_is_refused_and_says_that_it_is_late(lab: Lab) {
            assert!(send_sms(&lab.store, "a", false).await.unwrap().is_first());
            lab.outlive("a").await;
            let Outcome::Duplicate(seen) = send_sms(&lab.store, "a", false).await.unwrap() else { panic!("ran again") };
            assert!(seen.late);
        }

        /// On one thread, since a listener hears one.
        async fn each_delivery_has_one_event(lab: Lab) {
            let listener = Listener::start();
            let outcome = |listener: &Listener| {
                let events = listener.outcomes();
                assert_eq!(events.len(), 1, "{events:?}");
                assert_eq!(events[0].field("idem.scope"), Some("sms.paid"));
                assert_eq!(events[0].field("delivery.id"), Some("d-1"));
                events[0].field("idem.outcome").unwrap().to_owned()
            };
            // The future stays where it is, and so do its events.
            assert!(send_sms(&lab.store, "a", true).await.is_err());
            assert_eq!(outcome(&listener), "failed");
            assert!(send_sms(&lab.store, "a", false).await.unwrap().is_first());
            assert_eq!(outcome(&listener), "first");
            assert!(send_sms(&lab.store, "a", false).await.unwrap().is_duplicate());
            assert_eq!(outcome(&listener), "duplicate");
            let held = first(&lab.store, "b").await;
            assert!(begin(&lab.store, key("b")).await.is_err());
            assert_eq!(outcome(&listener), "busy");
            drop(held);
            assert_eq!(outcome(&listener), "failed");
            let old = first(&lab.store, "c").await;
            lab.age("c", LEASE).await;
            let new = first(&lab.store, "c").await;
            assert!(old.complete::<_, io::Error>(()).await.is_err());
            assert_eq!(outcome(&listener), "failed");
            assert!(new.complete::<_, io::Error>(()).await.is_ok());
            assert_eq!(outcome(&listener), "first");
        }
    }
}
