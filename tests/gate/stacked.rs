//! Two gates, one behind the other.

use crate::scripted::{Call, Scripted};
use idem_runtime::{
    Key,
    gate::{Begin, Finished, Gate as _, InFlight, Look, MemoryGate, Stacked},
};
use std::time::Duration;

fn key() -> Key {
    Key::scope("gate.stacked").part("one").finish().unwrap()
}

fn mark(owner: &str) -> InFlight {
    InFlight { owner: owner.to_owned(), fingerprint: None }
}

const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn a_far_hit_is_remembered_near_and_no_longer_than_far() {
    idem_tests::run(async {
        let (near, far) = (Scripted::default(), Scripted::default());
        let gate = Stacked::new(near.clone(), far.clone());
        far.remember(&key(), &Finished::default(), MINUTE).await;
        far.calls();
        let expected = Look::Finished { finished: Finished::default(), left: MINUTE };
        assert_eq!(gate.look(&key()).await, expected);
        assert_eq!(near.calls(), [Call::Look, Call::Remember(Finished::default(), MINUTE)]);
        assert_eq!(gate.look(&key()).await, expected);
        assert_eq!(far.calls(), [Call::Look], "the far gate is not asked again");
    });
}

#[test]
fn both_remember_and_both_forget() {
    idem_tests::run(async {
        let (near, far) = (Scripted::default(), Scripted::default());
        let gate = Stacked::new(near.clone(), far.clone());
        gate.remember(&key(), &Finished::default(), HOUR).await;
        assert!(near.knows(&key()) && far.knows(&key()));
        gate.forget(&key()).await;
        assert!(!near.knows(&key()) && !far.knows(&key()));
        assert_eq!(gate.look(&key()).await, Look::Unknown);
    });
}

#[test]
fn a_mark_in_either_counts_and_none_is_left_in_the_other() {
    idem_tests::run(async {
        let (near, far) = (Scripted::default(), Scripted::default());
        let gate = Stacked::new(near.clone(), far.clone());
        assert_eq!(gate.begin(&key(), &mark("a")).await, Begin::Go);
        assert_eq!((near.mark_of(&key()), far.mark_of(&key())), (Some(mark("a")), Some(mark("a"))));
        assert!(matches!(gate.begin(&key(), &mark("b")).await, Begin::Taken { by, .. } if by == mark("a")));
        gate.release(&key(), &mark("b")).await;
        assert_eq!((near.mark_of(&key()), far.mark_of(&key())), (Some(mark("a")), Some(mark("a"))));
        gate.release(&key(), &mark("a")).await;
        assert_eq!((near.mark_of(&key()), far.mark_of(&key())), (None, None));
        // Another process has marked it.
        far.put_mark(&key(), mark("c"));
        assert!(matches!(gate.begin(&key(), &mark("b")).await, Begin::Taken { by, .. } if by == mark("c")));
        assert_eq!((near.mark_of(&key()), far.mark_of(&key())), (None, Some(mark("c"))));
    });
}

idem_tests::on_every_database! {
    given {}

    async fn what_another_process_did_is_known_after_one_look(lab: Lab) {
        let far = Scripted::default();
        let one = lab.other_store(Lab::builder().gate(MemoryGate::new(100).over(far.clone()))).await;
        let two = lab.other_store(Lab::builder().gate(MemoryGate::new(100).over(far.clone()))).await;
        assert!(one.once(key(), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        two.pool().close().await;
        far.calls();
        for _ in 0..3 {
            assert!(two.once(key(), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        }
        assert_eq!(far.calls(), [Call::Look], "asked once, and known near from then on");
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        one.pool().close().await;
    }
}
