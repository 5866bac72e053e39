//! A lease is renewed while its work goes on, and says so when it cannot be.

use crate::place::{LEASE, Place as _, begin, first, key, on_every_place, on_every_remote_place};
use idem_runtime::{Begun, Busy, ClaimError, Error, HeldLease, Leases};
use std::{
    io,
    time::{Duration, Instant},
};

const SHORT: Duration = Duration::from_secs(1);

async fn first_for(leases: &impl Leases, lease: Duration) -> HeldLease {
    match leases.begin(key("a"), lease).await {
        Ok(Begun::First(held)) => held,
        other => panic!("not first: {other:?}"),
    }
}

on_every_place! {
    async fn a_slow_body_keeps_its_lease(lab: Lab) {
        let held = first_for(&lab.store, SHORT).await;
        let begun = Instant::now();
        while begun.elapsed() < SHORT * 5 / 2 {
            match begin(&lab.store, key("a")).await {
                Err(ClaimError::Busy(Busy::InProgress { retry_after })) => assert!(retry_after <= SHORT),
                other => panic!("{other:?} after {:?}", begun.elapsed()),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!held.lease().is_lost());
        assert_eq!(lab.written("a").await.unwrap().attempts, 1);
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    /// It blocks the thread on which it was begun, and whatever that thread had to do for the runtime.
    async fn a_body_that_blocks_its_thread_keeps_its_lease(lab: Lab) {
        let store = lab.store.clone();
        let body = tokio::spawn(async move {
            let held = first_for(&store, SHORT).await;
            std::thread::sleep(SHORT * 5 / 2);
            // No await in between: nothing was made good after the body.
            let lost = held.lease().is_lost();
            (held, lost)
        });
        let (held, lost) = body.await.unwrap();
        assert!(!lost, "nobody renewed the lease");
        assert!(matches!(begin(&lab.store, key("a")).await, Err(ClaimError::Busy(_))));
        assert_eq!(lab.written("a").await.unwrap().attempts, 1);
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn a_body_learns_that_another_owner_took_over(lab: Lab) {
        let old = first_for(&lab.store, SHORT * 3).await;
        assert!(!old.lease().is_lost());
        lab.age("a", SHORT * 3).await;
        let new = first(&lab.store, "a").await;
        let lease = old.lease().clone();
        lease.lost().await;
        assert!(lease.is_lost());
        assert!(matches!(old.complete::<_, io::Error>(()).await, Err(Error::LeaseLost(_))));
        assert!(!new.lease().is_lost());
        let lease = new.lease().clone();
        assert!(new.complete::<_, io::Error>(()).await.unwrap().is_first());
        // What a body left running has no lease any more.
        lease.lost().await;
        assert!(lease.is_lost());
    }

    async fn nobody_renews_what_was_dropped(lab: Lab) {
        let held = first_for(&lab.store, SHORT).await;
        let lease = held.lease().clone();
        drop(held);
        lease.lost().await;
        let begun = Instant::now();
        loop {
            match begin(&lab.store, key("a")).await {
                Ok(Begun::First(held)) => break drop(held),
                Err(ClaimError::Busy(Busy::InProgress { retry_after })) => tokio::time::sleep(retry_after).await,
                other => panic!("{other:?}"),
            }
            assert!(begun.elapsed() < SHORT * 20, "it is renewed for ever");
        }
        assert_eq!(lab.written("a").await.unwrap().attempts, 2);
    }
}

on_every_remote_place! {
    async fn a_lease_that_cannot_be_renewed_is_lost_by_our_own_clock_and_completed_if_nobody_took_over(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), Duration::from_millis(300)).await;
        let held = first_for(&leases, SHORT).await;
        road.refuse(true);
        road.break_all();
        held.lease().lost().await;
        assert!(held.lease().is_lost());
        assert!(!lab.written("a").await.unwrap().done);
        road.refuse(false);
        // It goes on trying, and nobody took over.
        while held.lease().is_lost() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(matches!(begin(&lab.store, key("a")).await, Err(ClaimError::Busy(_))));
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        assert!(lab.written("a").await.unwrap().done);
    }

    async fn a_heart_survives_broken_connections(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), Duration::from_secs(5)).await;
        let held = first_for(&leases, LEASE / 10).await;
        for _ in 0..4 {
            road.break_all();
            tokio::time::sleep(LEASE / 30).await;
            assert!(!held.lease().is_lost());
        }
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        assert_eq!(lab.written("a").await.unwrap().attempts, 1);
    }
}
