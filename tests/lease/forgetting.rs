//! Redis forgets: then work runs again, and nothing hangs.

use crate::place::{LEASE, Place as _, RedisLab, begin, first, key, on_redis};
use idem_runtime::{Begun, ClaimError, ConfigurationError, Error, Leases as _, RedisLeases, Retention};
use std::{io, time::Duration};

on_redis! {
    async fn what_was_done_runs_again(lab: Lab) {
        for _ in 0..2 {
            let held = first(&lab.store, "a").await;
            lab.work().await;
            assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
            assert!(matches!(begin(&lab.store, key("a")).await, Ok(Begun::Duplicate(_))));
            lab.forget().await;
        }
        assert_eq!(lab.works().await, 2);
    }

    async fn what_is_going_on_may_be_begun_twice_and_the_first_owner_is_refused(lab: Lab) {
        let old = first(&lab.store, "a").await;
        lab.forget().await;
        let new = first(&lab.store, "a").await;
        assert!(new.lease().fence() > old.lease().fence(), "a fence does not start again");
        assert!(matches!(old.complete::<_, io::Error>(()).await, Err(Error::LeaseLost(_))));
        assert!(new.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn a_completion_is_remembered_if_nobody_has_begun_in_between(lab: Lab) {
        let held = first(&lab.store, "a").await;
        lab.forget().await;
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        assert!(matches!(begin(&lab.store, key("a")).await, Ok(Begun::Duplicate(_))));
        assert_eq!(lab.indexed().await, 0);
    }

    async fn the_heart_writes_its_lease_down_again(lab: Lab) {
        let Ok(Begun::First(held)) = lab.store.begin(key("a"), Duration::from_secs(1)).await else { panic!("not first") };
        lab.forget().await;
        let written = loop {
            if let Some(written) = lab.written("a").await {
                break written;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(u64::try_from(written.fence).unwrap(), held.lease().fence());
        assert!(matches!(begin(&lab.store, key("a")).await, Err(ClaimError::Busy(_))));
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
    }

    async fn records_are_kept_for_the_retention_and_the_index_does_not_grow(lab: Lab) {
        let leases = lab.store.clone().retention(Retention::days(2));
        let held = first(&leases, "a").await;
        assert!(lab.kept_for("a").await > 86_400_000, "unfinished work is not forgotten early");
        assert_eq!(lab.indexed().await, 1);
        assert!(held.complete::<_, io::Error>(()).await.unwrap().is_first());
        let kept = lab.kept_for("a").await;
        assert!(kept > 86_400_000 && kept <= 2 * 86_400_000 + 1, "{kept}");
        assert_eq!(lab.indexed().await, 0);

        drop(first(&leases, "b").await);
        lab.age("b", LEASE).await;
        lab.outlive("b").await;
        assert_eq!(leases.unfinished(Duration::ZERO).await.unwrap(), []);
        assert_eq!(lab.indexed().await, 0, "what Redis forgot leaves the index");
    }

    async fn what_something_else_wrote_there_is_an_error_that_no_retry_cures(lab: Lab) {
        lab.damage("a").await;
        match begin(&lab.store, key("a")).await {
            Err(ClaimError::Redis(error)) => assert!(!error.is_retryable(), "{error}"),
            other => panic!("{other:?}"),
        }
    }

    async fn namespaces_do_not_meet_and_odd_ones_are_refused(lab: Lab) {
        let other = RedisLab::new().await;
        drop(first(&lab.store, "a").await);
        drop(first(&other.store, "a").await);
        other.close().await;
        for namespace in ["", "a b", "{a}", "a:b", &"a".repeat(65)] {
            let refused = RedisLeases::connect(&lab.url, namespace).await;
            assert!(matches!(refused, Err(ConfigurationError::Redis(_))), "{namespace:?}");
        }
        for url in ["nonsense", "redis://127.0.0.1:1"] {
            let refused = RedisLeases::connect(url, "shop").await;
            assert!(matches!(refused, Err(ConfigurationError::Redis(_))), "{url}");
        }
    }
}
