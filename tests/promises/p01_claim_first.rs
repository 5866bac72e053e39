//! Promise 1: the claim comes first. The loser of a race waits or is told "busy"; its body is never entered.

use idem_runtime::{Error, Key, Outcome};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Barrier;

idem_tests::on_every_database! {
    given {}

    async fn of_sixteen_at_once_one_body_is_entered(lab: Lab) {
        let entered = Arc::new(AtomicUsize::new(0));
        let start = Arc::new(Barrier::new(16));
        let mut deliveries = Vec::new();
        for _ in 0..16 {
            let (store, entered, start) = (lab.store.clone(), entered.clone(), start.clone());
            deliveries.push(tokio::spawn(async move {
                start.wait().await;
                let key = Key::scope("p01.race").part("one").finish();
                store.once(key, async |db| {
                    entered.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    credit(db, "a", 100).await
                }).await
            }));
        }
        let mut firsts = 0;
        for delivery in deliveries {
            match delivery.await.unwrap().unwrap() {
                Outcome::First(()) => firsts += 1,
                Outcome::Duplicate(_) => {}
                Outcome::Ignored(_) => panic!("ignored"),
            }
        }
        assert_eq!(firsts, 1);
        assert_eq!(entered.load(Ordering::SeqCst), 1, "a body was entered and then lost");
        assert_eq!(lab.balance("a").await, 100);
        assert_eq!(lab.claims().await, 1);
    }

    async fn a_loser_that_waits_too_long_is_busy_and_never_enters(lab: Lab) {
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(1))).await;
        let key = || Key::scope("p01.busy").part("one").finish();
        let idem_runtime::Claim::First(mut holder) = lab.store.claim(key()).await.unwrap() else { panic!("not first") };
        credit(holder.connection(), "a", 1).await.unwrap();
        let loser = store.once(key(), async |_| -> Result<(), sqlx::Error> { panic!("the body was entered") }).await;
        assert!(matches!(loser, Err(Error::Busy(_))), "{loser:?}");
        let busy = loser.unwrap_err();
        assert!(busy.is_retryable());
        assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        let again = store.once(key(), async |_| -> Result<(), sqlx::Error> { panic!("the body was entered") }).await;
        assert!(again.unwrap().is_duplicate());
        assert_eq!(lab.balance("a").await, 1);
    }
}
