//! Beginning and completing may be dropped at any await. What was begun is given back or runs out; what was completed is
//! completed; the connection is not lost.

use crate::place::{LEASE, Place, begin, first, key, on_every_place};
use idem_runtime::{Begun, ClaimError, Error, HeldLease, Leases};
use idem_tests::cancel::{
    Moment::{Answered, Asked},
    drop_at,
};
use std::{io, time::Duration};

/// No future of these tests waits that often; a sweep that comes here does not end.
const TOO_MANY: usize = 300;

/// Whatever an earlier delivery left, the next one can run once the lease has run out.
async fn sooner_or_later(lab: &impl Place, leases: &impl Leases, fact: &str) -> HeldLease {
    for _ in 0..20 {
        match begin(leases, key(fact)).await {
            Ok(Begun::First(held)) => return held,
            Err(ClaimError::Busy(_)) => lab.age(fact, LEASE).await,
            other => panic!("{fact}: {other:?}"),
        }
    }
    panic!("{fact}: it stays in progress");
}

/// What a dropped beginning left is given back in the background.
async fn is_given_back(lab: &impl Place, fact: &str) -> bool {
    for _ in 0..50 {
        match lab.written(fact).await {
            Some(written) if written.left <= 0 => return true,
            Some(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            None => return false,
        }
    }
    false
}

on_every_place! {
    async fn a_beginning_may_be_dropped_at_every_await(lab: Lab) {
        let road = lab.road(Duration::from_millis(1)).await;
        let leases = lab.client(road.as_ref(), Duration::from_secs(10)).await;
        let (mut dropped, mut given_back) = (0, 0);
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < TOO_MANY);
                let fact = format!("{moment:?}-{wait}");
                let done = drop_at(begin(&leases, key(&fact)), wait, moment).await;
                let complete = done.is_some();
                if !complete {
                    dropped += 1;
                    given_back += u32::from(moment == Answered && is_given_back(&lab, &fact).await);
                }
                drop(done);
                // The pool's only connection is in order, and what is written on it is durable.
                let other = format!("other-{fact}");
                let held = first(&leases, &other).await;
                assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
                assert!(lab.written(&other).await.unwrap().done, "{other}");

                let held = sooner_or_later(&lab, &leases, &fact).await;
                assert!(held.lease().attempts() <= 2, "{fact}");
                assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first(), "{fact}");
                assert!(matches!(begin(&leases, key(&fact)).await, Ok(Begun::Duplicate(_))), "{fact}");
                if complete {
                    break;
                }
            }
        }
        assert!(dropped >= 2, "nothing was dropped");
        assert!(given_back >= 1, "nothing was given back");
    }

    async fn a_completion_may_be_dropped_at_every_await(lab: Lab) {
        let road = lab.road(Duration::from_millis(1)).await;
        let leases = lab.client(road.as_ref(), Duration::from_secs(10)).await;
        let (mut dropped, mut written) = (0, 0);
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < TOO_MANY);
                let fact = format!("{moment:?}-{wait}");
                let held = first(&leases, &fact).await;
                let done = drop_at(held.complete::<_, io::Error>(()), wait, moment).await;
                dropped += u32::from(done.is_none());
                let is_done = match begin(&leases, key(&fact)).await {
                    Ok(Begun::Duplicate(_)) => true,
                    Err(ClaimError::Busy(_)) => false,
                    other => panic!("{fact}: {other:?}"),
                };
                if !is_done {
                    // Or it is on its way still.
                    lab.age(&fact, LEASE).await;
                    match begin(&leases, key(&fact)).await {
                        Ok(Begun::First(again)) => {
                            assert_eq!(again.lease().attempts(), 2);
                            assert!(again.complete::<_, io::Error>(()).await.unwrap().is_first(), "{fact}");
                        }
                        Ok(Begun::Duplicate(_)) => {}
                        other => panic!("{fact}: {other:?}"),
                    }
                }
                assert!(matches!(begin(&leases, key(&fact)).await, Ok(Begun::Duplicate(_))), "{fact}");
                written += u32::from(is_done);
                if let Some(done) = done {
                    assert!(done.unwrap().is_first() && is_done, "{fact}");
                    break;
                }
            }
        }
        assert!(dropped >= 2 && written >= 2, "{dropped} dropped, {written} written");
    }

    async fn giving_back_may_be_dropped_at_every_await(lab: Lab) {
        let road = lab.road(Duration::from_millis(1)).await;
        let leases = lab.client(road.as_ref(), Duration::from_secs(10)).await;
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < TOO_MANY);
                let fact = format!("{moment:?}-{wait}");
                let held = first(&leases, &fact).await;
                let done = drop_at(held.give_back::<(), (), _>("failed"), wait, moment).await;
                let held = sooner_or_later(&lab, &leases, &fact).await;
                assert_eq!(held.lease().attempts(), 2, "{fact}");
                assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first(), "{fact}");
                if let Some(done) = done {
                    assert!(matches!(done, Err(Error::Body("failed"))), "{fact}");
                    break;
                }
            }
        }
    }

    async fn a_body_that_panics_leaves_its_lease_to_run_out(lab: Lab) {
        let store = lab.store.clone();
        let body = tokio::spawn(async move {
            let _held = first(&store, "a").await;
            panic!("a fault in the body");
        });
        assert!(body.await.unwrap_err().is_panic());
        assert!(matches!(begin(&lab.store, key("a")).await, Err(ClaimError::Busy(_))));
        lab.age("a", LEASE).await;
        assert_eq!(first(&lab.store, "a").await.lease().attempts(), 2);
    }
}
