//! Work that was begun and not finished can be listed, and settled by somebody who found out.

use crate::place::{LEASE, Place as _, SCOPE, begin, first, key, on_every_place};
use idem_runtime::{Begun, ClaimError, Error, Key, Resolution};
use std::{io, time::Duration};

const HOUR: Duration = Duration::from_hours(1);

on_every_place! {
    async fn what_was_begun_and_not_done_is_listed_once_it_is_old_enough(lab: Lab) {
        let crashed = Key::scope(SCOPE).part("crashed").delivery("d-7").record("order A1001").finish();
        drop(begin(&lab.store, crashed).await.unwrap());
        assert!(first(&lab.store, "failed").await.give_back::<(), (), _>("no").await.is_err());
        drop(first(&lab.store, "recent").await);
        let going_on = first(&lab.store, "going-on").await;
        assert!(first(&lab.store, "done").await.complete::<_, io::Error>(()).await.unwrap().is_first());
        for fact in ["crashed", "failed"] {
            lab.age(fact, HOUR + LEASE).await;
        }
        lab.age("recent", LEASE).await;
        lab.age("done", HOUR * 2).await;

        let found = lab.store.unfinished(HOUR).await.unwrap();
        let facts: Vec<_> = found.iter().map(|work| (work.key.as_str(), work.given_back)).collect();
        assert_eq!(facts, [("crashed", false), ("failed", true)]);
        let work = &found[0];
        assert_eq!((work.scope.as_str(), work.attempts), (SCOPE, 1));
        assert_eq!((work.delivery_id.as_deref(), work.message.as_deref()), (Some("d-7"), Some("\"order A1001\"")));
        assert_eq!(i64::try_from(work.fence).unwrap(), lab.written("crashed").await.unwrap().fence);
        assert_eq!(work.idempotency_key(), "sms.paid/crashed");
        assert!(work.lease_until < work.begun_at, "it was moved into the past");

        // In pages.
        let first_page = lab.store.unfinished(Duration::ZERO).limit(2).await.unwrap();
        assert_eq!(first_page.iter().map(|work| work.key.as_str()).collect::<Vec<_>>(), ["crashed", "failed"]);
        let rest = lab.store.unfinished(Duration::ZERO).limit(2).after(&first_page[1]).await.unwrap();
        assert_eq!(rest.iter().map(|work| work.key.as_str()).collect::<Vec<_>>(), ["recent"]);
        assert!(going_on.complete::<_, io::Error>(()).await.unwrap().is_first());
        assert_eq!(lab.store.unfinished(Duration::MAX).await.unwrap(), []);
    }

    async fn what_turns_out_to_be_done_is_a_duplicate_from_then_on(lab: Lab) {
        let old = first(&lab.store, "a").await;
        lab.age("a", LEASE).await;
        let found = lab.store.unfinished(Duration::ZERO).await.unwrap();
        assert!(lab.store.resolve(&found[0], Resolution::Done).await.unwrap());
        assert!(lab.store.resolve(&found[0], Resolution::Done).await.unwrap(), "its answer may have been lost");
        assert!(!lab.store.resolve(&found[0], Resolution::GiveBack).await.unwrap(), "it is done");
        assert!(matches!(begin(&lab.store, key("a")).await, Ok(Begun::Duplicate(_))));
        assert_eq!(lab.store.unfinished(Duration::ZERO).await.unwrap(), []);
        assert!(matches!(old.complete::<_, io::Error>(()).await, Err(Error::LeaseLost(_))));
    }

    async fn what_turns_out_not_to_be_done_runs_with_the_next_delivery_and_its_old_owner_is_refused(lab: Lab) {
        let old = first(&lab.store, "a").await;
        lab.age("a", LEASE).await;
        let found = lab.store.unfinished(Duration::ZERO).await.unwrap();
        assert!(lab.store.resolve(&found[0], Resolution::GiveBack).await.unwrap());
        assert!(matches!(old.complete::<_, io::Error>(()).await, Err(Error::LeaseLost(_))));
        assert!(!lab.written("a").await.unwrap().done);
        assert_eq!(lab.store.unfinished(HOUR).await.unwrap(), [], "it is not old any more");
        assert!(lab.store.unfinished(Duration::ZERO).await.unwrap()[0].given_back);
        let new = first(&lab.store, "a").await;
        assert!(new.lease().fence() > found[0].fence);
        assert!(new.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn what_somebody_has_begun_again_cannot_be_settled_by_what_was_read_before(lab: Lab) {
        drop(first(&lab.store, "a").await);
        lab.age("a", LEASE).await;
        let found = lab.store.unfinished(Duration::ZERO).await.unwrap();
        let new = first(&lab.store, "a").await;
        // Also when the new owner's lease has run out, and it is still at it.
        for _ in 0..2 {
            for resolution in [Resolution::Done, Resolution::GiveBack] {
                assert!(!lab.store.resolve(&found[0], resolution).await.unwrap(), "{resolution:?}");
            }
            lab.age("a", LEASE).await;
        }
        assert!(new.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn what_is_being_worked_on_again_by_the_same_owner_cannot_be_settled(lab: Lab) {
        let held = match idem_runtime::Leases::begin(&lab.store, key("a"), Duration::from_secs(3)).await {
            Ok(Begun::First(held)) => held,
            other => panic!("{other:?}"),
        };
        lab.age("a", LEASE).await;
        let found = lab.store.unfinished(Duration::ZERO).await.unwrap();
        // The owner was slow, and its heart beats again.
        while lab.written("a").await.unwrap().left <= 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!lab.store.resolve(&found[0], Resolution::Done).await.unwrap());
        assert!(matches!(begin(&lab.store, key("a")).await, Err(ClaimError::Busy(_))));
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
    }
}
