//! One owner at a time, and an owner that comes too late is refused. Case C33.

use crate::place::{LEASE, Place as _, begin, first, key, on_every_place};
use idem_runtime::{Begun, Busy, ClaimError, ConfigurationError, Error, Key, Leases as _, Outcome};
use std::{io, time::Duration};
use tokio::task::JoinSet;

on_every_place! {
    async fn a_crash_keeps_others_away_until_the_lease_has_run_out_and_then_exactly_one_takes_over(lab: Lab) {
        let held = first(&lab.store, "a").await;
        assert_eq!(held.lease().attempts(), 1);
        let fence = held.lease().fence();
        drop(held);
        for _ in 0..2 {
            match begin(&lab.store, key("a")).await {
                Err(ClaimError::Busy(Busy::InProgress { retry_after })) => {
                    assert!(retry_after <= LEASE && retry_after > LEASE / 2, "{retry_after:?}");
                }
                other => panic!("{other:?}"),
            }
        }

        lab.age("a", LEASE).await;
        let mut racers = JoinSet::new();
        for _ in 0..8 {
            let leases = lab.store.clone();
            racers.spawn(async move { begin(&leases, key("a")).await });
        }
        let mut owners = Vec::new();
        for outcome in racers.join_all().await {
            match outcome {
                Ok(Begun::First(held)) => owners.push(held),
                Err(ClaimError::Busy(Busy::InProgress { retry_after })) => assert!(retry_after > LEASE / 2),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(owners.len(), 1, "taken over by exactly one");
        let owner = owners.pop().unwrap();
        assert!(owner.lease().fence() > fence, "the fence grew");
        assert_eq!(owner.lease().attempts(), 2);
        let written = lab.written("a").await.unwrap();
        assert_eq!((written.attempts, written.done), (2, false));
        assert_eq!(u64::try_from(written.fence).unwrap(), owner.lease().fence());
        lab.work().await;
        assert_eq!(owner.complete::<_, io::Error>(()).await.unwrap(), Outcome::First(()));
        assert!(matches!(begin(&lab.store, key("a")).await, Ok(Begun::Duplicate(_))));
        assert_eq!(lab.works().await, 1);
    }

    async fn of_many_that_begin_at_once_one_is_first(lab: Lab) {
        let mut racers = JoinSet::new();
        for _ in 0..8 {
            let leases = lab.store.clone();
            racers.spawn(async move { begin(&leases, key("a")).await });
        }
        let mut owners = Vec::new();
        for outcome in racers.join_all().await {
            match outcome {
                Ok(Begun::First(held)) => owners.push(held),
                Err(ClaimError::Busy(Busy::InProgress { .. })) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(owners.len(), 1);
        assert_eq!(lab.written("a").await.unwrap().attempts, 1);
    }

    async fn a_late_completion_is_refused_and_changes_nothing(lab: Lab) {
        let old = first(&lab.store, "a").await;
        lab.age("a", LEASE).await;
        let new = first(&lab.store, "a").await;
        let before = lab.written("a").await.unwrap();
        match old.complete_and_keep::<_, io::Error>("old".to_owned(), &idem_runtime::Keep::new()).await {
            Err(Error::LeaseLost(lost)) => {
                assert!(lost.fence < new.lease().fence());
                assert!(lost.key.contains("sms.paid"), "{}", lost.key);
            }
            other => panic!("{other:?}"),
        }
        let after = lab.written("a").await.unwrap();
        assert_eq!((after.fence, after.done, after.has_result), (before.fence, false, false));
        assert!(after.left > 0);
        assert!(new.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn an_old_owner_that_gives_back_takes_nothing_from_the_new_one(lab: Lab) {
        let old = first(&lab.store, "a").await;
        lab.age("a", LEASE).await;
        let new = first(&lab.store, "a").await;
        let given_back = old.give_back::<(), (), _>("failed").await;
        assert!(matches!(given_back, Err(Error::Body("failed"))), "{given_back:?}");
        assert!(matches!(begin(&lab.store, key("a")).await, Err(ClaimError::Busy(_))));
        assert!(new.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn a_late_completion_after_the_new_owner_completed_is_refused(lab: Lab) {
        let old = first(&lab.store, "a").await;
        lab.age("a", LEASE).await;
        let new = first(&lab.store, "a").await;
        assert!(new.complete::<_, io::Error>(()).await.unwrap().is_first());
        assert!(matches!(old.complete::<_, io::Error>(()).await, Err(Error::LeaseLost(_))));
    }

    async fn a_completion_after_the_lease_ran_out_is_accepted_while_nobody_took_over(lab: Lab) {
        let held = first(&lab.store, "a").await;
        lab.age("a", LEASE * 2).await;
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        assert!(matches!(begin(&lab.store, key("a")).await, Ok(Begun::Duplicate(_))));
    }

    async fn a_lease_of_nothing_or_of_more_than_a_day_is_refused_before_anything_is_written(lab: Lab) {
        for lease in [Duration::ZERO, Duration::from_millis(999), Duration::from_millis(86_400_001), Duration::MAX] {
            match lab.store.begin(key("a"), lease).await {
                Err(ClaimError::Configuration(ConfigurationError::Lease(refused))) => assert_eq!(refused, lease),
                other => panic!("{lease:?}: {other:?}"),
            }
        }
        assert_eq!(lab.written("a").await, None);
        for (fact, lease) in [("shortest", 1), ("longest", 86_400)] {
            let begun = lab.store.begin(key(fact), Duration::from_secs(lease)).await;
            assert!(matches!(begun, Ok(Begun::First(_))), "{begun:?}");
        }
    }

    async fn a_one_time_token_cannot_be_leased(lab: Lab) {
        let token = "0".repeat(64);
        let refused = begin(&lab.store, Key::token("sms.paid", &token).finish()).await;
        assert!(matches!(refused, Err(ClaimError::Configuration(ConfigurationError::LeaseOfToken))), "{refused:?}");
    }

    async fn scopes_and_odd_keys_do_not_meet(lab: Lab) {
        let odd = ["'; DROP TABLE accounts; --", "\\", "短信", "a/b", "\u{1}", "x\" OR 1=1"];
        for fact in odd {
            let one = Key::scope("s").part(fact).delivery(fact).record(fact).finish();
            assert!(matches!(begin(&lab.store, one).await, Ok(Begun::First(_))), "{fact}");
            let other = Key::scope("s/a").part(fact).finish();
            assert!(matches!(begin(&lab.store, other).await, Ok(Begun::First(_))), "{fact}");
        }
        let listed = lab.store.unfinished(Duration::ZERO).await.unwrap();
        assert_eq!(listed, [], "all are going on");
        for fact in odd {
            let again = Key::scope("s").part(fact).finish();
            assert!(matches!(begin(&lab.store, again).await, Err(ClaimError::Busy(_))), "{fact}");
        }
    }
}
