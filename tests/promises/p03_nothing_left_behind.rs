//! Promise 3: a body error, a panic or a dropped future leaves nothing behind. Claim and business writes go together,
//! the pooled connection is clean, and an immediate redelivery runs.
//!
//! Covers C13 and C43. Each test has a pool of one connection, so that what a failed delivery leaves on it is what the
//! next borrower gets; dropping at each single await is promise 5.

use idem_runtime::{Claim, Error, Key, idempotent};
use std::{
    any::Any,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// What becomes of a body.
#[derive(Clone, Debug)]
enum Fate {
    Succeeds,
    FailsAtOnce,
    FailsAfterWriting,
    FailsInSavepoint,
    PanicsAtOnce,
    PanicsAfterWriting,
    PanicsInSavepoint,
    /// The body is done, and then a value of it panics while it is dropped.
    PanicsInDrop,
    /// Tells that it is there, and stays there.
    StaysAtOnce(Arc<Notify>),
    StaysAfterWriting(Arc<Notify>),
    StaysInSavepoint(Arc<Notify>),
    /// As the one before, with a value that panics when the body is dropped.
    StaysAndPanicsInDrop(Arc<Notify>),
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("refused")]
    Refused,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        // A second panic while the first unwinds would end the process.
        assert!(std::thread::panicking(), "boom in drop");
    }
}

/// A message whose identity can panic.
struct Payment<'a> {
    order: Option<&'a str>,
}

impl Payment<'_> {
    fn order_no(&self) -> &str {
        let Some(order) = self.order else { panic!("boom in the key") };
        order
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().unwrap_or("something else")
}

idem_tests::on_every_database! {
    given {
        use sqlx::Connection as _;

        #[idempotent(key = action, store = db, scope = "p03.pay")]
        async fn pay(db: &mut Conn, action: &str, fate: Fate) -> Result<(), Failed> {
            body(db, fate).await
        }

        #[idempotent(key = payment.order_no(), store = db)]
        async fn pay_order(db: &mut Conn, payment: &Payment<'_>) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        async fn body(db: &mut Conn, fate: Fate) -> Result<(), Failed> {
            match &fate {
                Fate::FailsAtOnce => return Err(Failed::Refused),
                Fate::PanicsAtOnce => panic!("boom"),
                Fate::StaysAtOnce(here) => {
                    here.notify_one();
                    return pending().await;
                }
                _ => {}
            }
            credit(db, "a", 1).await?;
            match &fate {
                Fate::FailsAfterWriting => Err(Failed::Refused),
                Fate::PanicsAfterWriting => panic!("boom"),
                Fate::PanicsInDrop => {
                    let _bomb = Bomb;
                    Ok(())
                }
                Fate::StaysAfterWriting(here) => {
                    here.notify_one();
                    pending().await
                }
                Fate::StaysAndPanicsInDrop(here) => {
                    let _bomb = Bomb;
                    here.notify_one();
                    pending().await
                }
                Fate::FailsInSavepoint | Fate::PanicsInSavepoint | Fate::StaysInSavepoint(_) => {
                    let mut inner = db.begin().await?;
                    credit(&mut inner, "a", 1).await?;
                    match &fate {
                        Fate::PanicsInSavepoint => panic!("boom"),
                        Fate::StaysInSavepoint(here) => {
                            here.notify_one();
                            pending().await
                        }
                        _ => {
                            // Not rolled back, as when code of the application keeps it for later.
                            std::mem::forget(inner);
                            Err(Failed::Refused)
                        }
                    }
                }
                _ => Ok(()),
            }
        }

        async fn one_connection(lab: &Lab) -> Db {
            let one = Lab::builder().max_connections(1).acquire_timeout(Duration::from_secs(10));
            let store = lab.other_store(one).await;
            store.verify().await.unwrap();
            store
        }

        /// What a unit sets for itself on a session. On SQLite it sets nothing.
        async fn session_setting(store: &Db) -> Option<i64> {
            let sql = match DIALECT {
                Dialect::Sqlite => return None,
                Dialect::Postgres => {
                    "SELECT setting::bigint * 10 + (current_setting('transaction_isolation') <> 'read committed')::int \
                     FROM pg_settings WHERE name = 'lock_timeout'"
                }
                Dialect::MySql => "SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED)",
            };
            sqlx::query_scalar(sql).fetch_one(store.pool()).await.unwrap()
        }

        /// Nothing is left of a failed delivery: no claim, no write, nothing on the connection, which is the pool's only one.
        async fn assert_nothing_left(lab: &Lab, store: &Db, action: &str, setting: Option<i64>) {
            let mut next = store.pool().acquire().await.unwrap_or_else(|error| panic!("{action}: {error}"));
            raw(&mut next, &format!("INSERT INTO accounts VALUES ('{action}', 0)")).await.unwrap();
            let seen = lab.number(&format!("SELECT count(*) FROM accounts WHERE id = '{action}'")).await;
            assert_eq!(seen, 1, "{action}: a transaction was open on the pooled connection");
            // sqlx counts transactions by itself: with a wrong count BEGIN would be a savepoint, and this durable.
            let mut transaction = next.begin().await.unwrap();
            raw(&mut transaction, &format!("INSERT INTO accounts VALUES ('{action}-2', 0)")).await.unwrap();
            transaction.rollback().await.unwrap();
            let seen = lab.number(&format!("SELECT count(*) FROM accounts WHERE id = '{action}-2'")).await;
            assert_eq!(seen, 0, "{action}: the next borrower's transaction was none");
            drop(next);
            assert_eq!(session_setting(store).await, setting, "{action}: the session is not as it was");
            lab.wait_until_calm().await;
            let records = lab.number(&format!("SELECT count(*) FROM idem_records WHERE action_key = '{action}'")).await;
            assert_eq!(records, 0, "{action}: the claim is still there");
        }

        /// A redelivery runs at once, and only the first of two.
        async fn assert_redelivery_runs(lab: &Lab, store: &Db, action: &str) {
            let before = lab.balance("a").await;
            let second = pay(store, action, Fate::Succeeds).await.unwrap();
            assert!(second.is_first(), "{action}: {second:?}");
            let third = pay(store, action, Fate::Succeeds).await.unwrap();
            assert!(third.is_duplicate(), "{action}: {third:?}");
            assert_eq!(lab.balance("a").await, before + 1, "{action}");
        }
    }

    async fn a_body_error_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        for (number, fate) in [Fate::FailsAtOnce, Fate::FailsAfterWriting, Fate::FailsInSavepoint].into_iter().enumerate() {
            let action = format!("error-{number}");
            let first = pay(&store, &action, fate).await;
            assert!(matches!(first, Err(Error::Body(Failed::Refused))), "{first:?}");
            assert_nothing_left(&lab, &store, &action, setting).await;
            assert_eq!(lab.balance("a").await, i64::try_from(number).unwrap());
            assert_redelivery_runs(&lab, &store, &action).await;
        }
        assert_eq!(lab.claims().await, 3);
    }

    async fn a_body_error_without_the_attribute_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let key = || Key::scope("p03.pay").part("once").finish();
        let first = store.once(key(), async |db| body(db, Fate::FailsAfterWriting).await).await;
        assert!(matches!(first, Err(Error::Body(Failed::Refused))), "{first:?}");
        assert_nothing_left(&lab, &store, "once", setting).await;
        assert_eq!(lab.balance("a").await, 0);
        assert_redelivery_runs(&lab, &store, "once").await;
    }

    /// After success and after a repeat the connection is as clean as after a failure.
    async fn a_success_and_a_repeat_leave_a_clean_connection(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        for savepoint_kept in [false, true] {
            let key = || Key::scope("p03.clean").part(&savepoint_kept.to_string()).finish();
            for delivery in 0..3 {
                let outcome = store.once(key(), async |db: &mut Conn| {
                    credit(db, "a", 1).await?;
                    if savepoint_kept {
                        std::mem::forget(db.begin().await?);
                    }
                    Ok::<_, sqlx::Error>(())
                }).await.unwrap();
                assert_eq!(outcome.is_first(), delivery == 0);
                assert_nothing_left(&lab, &store, &format!("{savepoint_kept}-{delivery}"), setting).await;
            }
        }
        assert_eq!(lab.balance("a").await, 2);
    }

    async fn a_panic_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let fates = [
            (Fate::PanicsAtOnce, "boom"),
            (Fate::PanicsAfterWriting, "boom"),
            (Fate::PanicsInSavepoint, "boom"),
            (Fate::PanicsInDrop, "boom in drop"),
        ];
        for (number, (fate, message)) in fates.into_iter().enumerate() {
            let action = format!("panic-{number}");
            let first = tokio::spawn({
                let (store, action) = (store.clone(), action.clone());
                async move { pay(&store, &action, fate).await }
            });
            // The panic goes on to whoever runs the delivery, as it was.
            assert_eq!(said(&*first.await.unwrap_err().into_panic()), message);
            assert_nothing_left(&lab, &store, &action, setting).await;
            assert_eq!(lab.balance("a").await, i64::try_from(number).unwrap());
            assert_redelivery_runs(&lab, &store, &action).await;
        }
        assert_eq!(lab.claims().await, 4);
    }

    async fn a_panic_without_the_attribute_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let first = tokio::spawn({
            let store = store.clone();
            async move {
                let key = Key::scope("p03.pay").part("once").finish();
                store.once(key, async |db| body(db, Fate::PanicsAfterWriting).await).await
            }
        });
        assert!(first.await.unwrap_err().is_panic());
        assert_nothing_left(&lab, &store, "once", setting).await;
        assert_eq!(lab.balance("a").await, 0);
        assert_redelivery_runs(&lab, &store, "once").await;
    }

    async fn a_panic_in_the_key_happens_before_anything_is_claimed(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let first = tokio::spawn({
            let store = store.clone();
            async move { pay_order(&store, &Payment { order: None }).await }
        });
        assert_eq!(said(&*first.await.unwrap_err().into_panic()), "boom in the key");
        assert_nothing_left(&lab, &store, "o-1", setting).await;
        assert_eq!(lab.claims().await, 0);
        let payment = Payment { order: Some("o-1") };
        assert!(pay_order(&store, &payment).await.unwrap().is_first());
        assert!(pay_order(&store, &payment).await.unwrap().is_duplicate());
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_dropped_delivery_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let fates = [Fate::StaysAtOnce, Fate::StaysAfterWriting, Fate::StaysInSavepoint];
        for (number, fate) in fates.into_iter().enumerate() {
            let action = format!("dropped-{number}");
            let here = Arc::new(Notify::new());
            tokio::select! {
                first = pay(&store, &action, fate(here.clone())) => panic!("{first:?}"),
                () = here.notified() => {}
            }
            assert_nothing_left(&lab, &store, &action, setting).await;
            assert_eq!(lab.balance("a").await, i64::try_from(number).unwrap());
            assert_redelivery_runs(&lab, &store, &action).await;
        }
    }

    async fn an_aborted_task_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let fates = [Fate::StaysAtOnce, Fate::StaysAfterWriting, Fate::StaysInSavepoint];
        for (number, fate) in fates.into_iter().enumerate() {
            let action = format!("aborted-{number}");
            let here = Arc::new(Notify::new());
            let task = tokio::spawn({
                let (store, action, fate) = (store.clone(), action.clone(), fate(here.clone()));
                async move { pay(&store, &action, fate).await }
            });
            here.notified().await;
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            assert_nothing_left(&lab, &store, &action, setting).await;
            assert_eq!(lab.balance("a").await, i64::try_from(number).unwrap());
            assert_redelivery_runs(&lab, &store, &action).await;
        }
    }

    /// The drop of the delivery is itself interrupted: what the body holds panics, and the unit is dropped after it.
    async fn a_panic_while_a_delivery_is_dropped_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let here = Arc::new(Notify::new());
        let mut first = Box::pin(pay(&store, "bomb", Fate::StaysAndPanicsInDrop(here.clone())));
        tokio::select! {
            first = &mut first => panic!("{first:?}"),
            () = here.notified() => {}
        }
        let panic = catch_unwind(AssertUnwindSafe(|| drop(first))).unwrap_err();
        assert_eq!(said(&*panic), "boom in drop");
        assert_nothing_left(&lab, &store, "bomb", setting).await;
        assert_eq!(lab.balance("a").await, 0);
        assert_redelivery_runs(&lab, &store, "bomb").await;
    }

    async fn a_unit_that_is_dropped_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        let Claim::First(mut unit) = store.claim(Key::scope("p03.pay").part("unit").finish()).await.unwrap() else {
            panic!("not first")
        };
        credit(unit.connection(), "a", 1).await.unwrap();
        drop(unit);
        assert_nothing_left(&lab, &store, "unit", setting).await;
        assert_eq!(lab.balance("a").await, 0);
        assert_redelivery_runs(&lab, &store, "unit").await;
    }

    /// A commit or a rollback that is dropped before it is polled has not happened.
    async fn an_ending_that_is_never_polled_leaves_nothing_behind(lab: Lab) {
        let store = one_connection(&lab).await;
        let setting = session_setting(&store).await;
        for action in ["commit", "roll-back"] {
            let Claim::First(mut unit) = store.claim(Key::scope("p03.pay").part(action).finish()).await.unwrap() else {
                panic!("not first")
            };
            credit(unit.connection(), "b", 1).await.unwrap();
            if action == "commit" {
                drop(unit.commit::<_, Failed>(()));
            } else {
                drop(unit.roll_back::<(), (), _>(Failed::Refused));
            }
            assert_nothing_left(&lab, &store, action, setting).await;
            assert_eq!(lab.balance("b").await, 0);
            assert_redelivery_runs(&lab, &store, action).await;
        }
    }
}
