//! Answers that get lost on the way. Each step may be said twice, and counts once.

use crate::place::{LEASE, Place as _, begin, first, key, on_every_remote_place};
use idem_runtime::{Advice, Begun, ClaimError, Error};
use idem_tests::proxy::Cut;
use std::{io, time::Duration};

const CUTS: [Cut; 3] = [Cut::Before, Cut::After, Cut::Silent];
const TIMEOUT: Duration = Duration::from_millis(300);

fn fact(cut: Cut) -> String {
    format!("{cut:?}")
}

on_every_remote_place! {
    async fn of_a_beginning(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), TIMEOUT).await;
        drop(first(&leases, "warm").await);
        for (number, cut) in CUTS.into_iter().enumerate() {
            road.cut_once(lab.on_the_wire("INSERT INTO"), cut).await;
            let held = first(&leases, &fact(cut)).await;
            assert_eq!(road.cuts(), number + 1, "no answer was lost");
            let written = lab.written(&fact(cut)).await.unwrap();
            assert_eq!((held.lease().attempts(), written.attempts), (1, 1), "{cut:?}");
            assert_eq!(u64::try_from(written.fence).unwrap(), held.lease().fence(), "{cut:?}");
            assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        }
    }

    async fn of_a_take_over(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), TIMEOUT).await;
        for (number, cut) in CUTS.into_iter().enumerate() {
            drop(first(&leases, &fact(cut)).await);
            lab.age(&fact(cut), LEASE).await;
            road.cut_once(lab.on_the_wire("fence = fence + 1"), cut).await;
            let held = first(&leases, &fact(cut)).await;
            assert_eq!(road.cuts(), number + 1, "no answer was lost");
            let written = lab.written(&fact(cut)).await.unwrap();
            assert_eq!((held.lease().attempts(), written.attempts), (2, 2), "{cut:?}");
            assert_eq!(u64::try_from(written.fence).unwrap(), held.lease().fence(), "{cut:?}");
            assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        }
    }

    async fn of_a_completion(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), TIMEOUT).await;
        for (number, cut) in CUTS.into_iter().enumerate() {
            let held = first(&leases, &fact(cut)).await;
            lab.work().await;
            road.cut_once(lab.on_the_wire("done_at = COALESCE"), cut).await;
            assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first(), "{cut:?}");
            assert_eq!(road.cuts(), number + 1, "no answer was lost");
            assert!(lab.written(&fact(cut)).await.unwrap().done, "{cut:?}");
            assert!(matches!(begin(&leases, key(&fact(cut))).await, Ok(Begun::Duplicate(_))), "{cut:?}");
        }
        assert_eq!(lab.works().await, 3);
    }

    async fn of_giving_back(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), TIMEOUT).await;
        for (number, cut) in CUTS.into_iter().enumerate() {
            let held = first(&leases, &fact(cut)).await;
            road.cut_once(lab.on_the_wire("00000000000000000000000000000000"), cut).await;
            assert!(matches!(held.give_back::<(), (), _>("failed").await, Err(Error::Body("failed"))), "{cut:?}");
            assert_eq!(road.cuts(), number + 1, "no answer was lost");
            drop(first(&leases, &fact(cut)).await);
        }
    }

    async fn a_completion_outlasts_a_short_outage(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), TIMEOUT * 20).await;
        let held = first(&leases, "a").await;
        road.refuse(true);
        road.break_all();
        let completing = tokio::spawn(held.complete::<_, io::Error>(()));
        // Longer than one try lasts: that of a pool is a second.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        road.refuse(false);
        assert!(completing.await.unwrap().unwrap().is_first());
        assert!(lab.written("a").await.unwrap().done);
    }

    async fn a_completion_that_cannot_be_written_is_an_error_of_its_own_and_the_work_runs_again(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), TIMEOUT).await;
        let held = first(&leases, "a").await;
        let fence = held.lease().fence();
        road.refuse(true);
        road.break_all();
        match held.complete::<_, io::Error>(()).await {
            Err(Error::CompletionUnknown(unknown)) => {
                assert_eq!((unknown.fence, unknown.key.as_str()), (fence, "sms.paid/a"));
                let error = Error::<io::Error>::CompletionUnknown(unknown);
                assert!(error.is_retryable());
                assert_eq!(error.advice(), Advice::RetryLater);
            }
            other => panic!("{other:?}"),
        }
        assert!(!lab.written("a").await.unwrap().done);
        assert!(matches!(begin(&lab.store, key("a")).await, Err(ClaimError::Busy(_))));
        lab.age("a", LEASE).await;
        assert!(first(&lab.store, "a").await.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn a_place_that_is_away_is_an_error_that_says_retry_and_nothing_hangs(lab: Lab) {
        let road = lab.road(Duration::ZERO).await.unwrap();
        let leases = lab.client(Some(&road), TIMEOUT).await;
        drop(first(&leases, "warm").await);
        road.refuse(true);
        road.break_all();
        let error = begin(&leases, key("a")).await.unwrap_err();
        assert!(matches!(error, ClaimError::Redis(_) | ClaimError::Busy(_) | ClaimError::Database(_)), "{error:?}");
        let error = Error::<io::Error>::from(error);
        assert!(error.is_retryable(), "{error:?}");
        assert_eq!(error.advice(), Advice::RetryLater);
        road.refuse(false);
        assert_eq!(lab.written("a").await, None);
        assert!(first(&leases, "a").await.complete::<_, io::Error>(()).await.unwrap().is_first());
    }
}
