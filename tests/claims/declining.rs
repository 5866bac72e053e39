//! A body may say "not now": no failure, nothing written, nothing claimed, and a later delivery runs.

use idem_runtime::{
    Advice, Decision, Ending, Error, Ignored, Key, KeyError, Outcome, Then, TransactionEnded, Why, idempotent,
};
use idem_tests::{
    cancel::{
        Moment::{Answered, Asked},
        drop_at,
    },
    logs::Listener,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::Level;

const DELIVERY: &str = "d-1";

fn key(no: &str) -> Result<Key, KeyError> {
    Key::scope("claims.declining.hand").part(no).delivery(DELIVERY).finish()
}

fn ignored<T: std::fmt::Debug, R: std::fmt::Debug>(outcome: Outcome<T, R>) -> Ignored {
    match outcome {
        Outcome::Ignored(ignored) => ignored,
        other => panic!("not ignored: {other:?}"),
    }
}

/// What the body does after its write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Finish,
    Wait,
    Drop,
    Fail,
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = no, store = db, scope = "claims.declining", declines, delivery = DELIVERY)]
        async fn settle(db: &mut Conn, no: &str, then: Verdict) -> Result<Decision<u8>, sqlx::Error> {
            credit(db, "a", 1).await?;
            match then {
                Verdict::Finish => Ok(Decision::Done(7)),
                Verdict::Wait => Ok(Decision::retry(format!("order {no} is not here yet"))),
                Verdict::Drop => Ok(Decision::drop("the order was cancelled")),
                Verdict::Fail => Err(sqlx::Error::RowNotFound),
            }
        }

        #[idempotent(key = no, store = db, scope = "claims.declining.retry", declines, retry = 3)]
        async fn retried(db: &mut Conn, no: &str, tries: &AtomicUsize) -> Result<Decision<()>, sqlx::Error> {
            credit(db, "a", 1).await?;
            match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Err(sqlx::Error::RowNotFound),
                1 => Ok(Decision::retry("not yet")),
                _ => Ok(Decision::Done(())),
            }
        }

        /// Unknown column, and a statement after it.
        async fn swallow_an_error(db: &mut Conn) {
            assert!(raw(db, "UPDATE accounts SET no_such_column = 1").await.is_err());
            let _ = credit(db, "a", 1).await;
        }
    }

    async fn all_is_given_back_and_the_next_delivery_runs(lab: Lab) {
        for (then, what, reason, advice) in [
            (Verdict::Wait, Then::Retry, "order 1 is not here yet", Advice::RetryLater),
            (Verdict::Drop, Then::Drop, "the order was cancelled", Advice::Ack),
        ] {
            let listener = Listener::start();
            let outcome = settle(&lab.store, "1", then).await.unwrap();
            assert_eq!((outcome.label(), outcome.advice(), outcome.is_ignored()), ("ignored", advice, true));
            let declined = ignored(outcome);
            assert_eq!((declined.why, declined.then, declined.reason.as_str()), (Why::Declined, what, reason));
            assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
            let heard = listener.events();
            let [event] = &heard[..] else { panic!("{heard:#?}") };
            assert_eq!((event.level, event.field("idem.outcome")), (Level::INFO, Some("ignored")));
            assert_eq!((event.field("reason"), event.field("delivery.id")), (Some(reason), Some(DELIVERY)));
        }
        lab.wait_until_calm().await;
        assert!(matches!(settle(&lab.store, "1", Verdict::Fail).await, Err(Error::Body(_))));
        assert_eq!(settle(&lab.store, "1", Verdict::Finish).await.unwrap(), Outcome::First(7));
        // Done is done: the body is not asked again.
        assert!(settle(&lab.store, "1", Verdict::Wait).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
    }

    async fn a_decline_is_no_failure_to_be_repeated(lab: Lab) {
        let tries = AtomicUsize::new(0);
        let listener = Listener::start();
        let declined = ignored(retried(&lab.store, "1", &tries).await.unwrap());
        assert_eq!((declined.then, tries.load(Ordering::SeqCst)), (Then::Retry, 2), "the error is repeated, the decline is not");
        let outcomes = listener.outcomes();
        assert_eq!(outcomes.len(), 1, "{outcomes:#?}");
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert!(retried(&lab.store, "1", &tries).await.unwrap().is_first());
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn without_the_attribute(lab: Lab) {
        let declined = lab.store.once_unless_declined(key("1"), async |db| {
            credit(db, "a", 1).await?;
            Ok::<Decision<u8>, sqlx::Error>(Decision::drop("no"))
        }).await.unwrap();
        assert_eq!(ignored(declined).then, Then::Drop);
        let failed = lab.store.once_unless_declined(key("1"), async |db| {
            credit(db, "a", 1).await.map_err(|error| error.to_string())?;
            Err::<Decision<u8>, _>("no".to_owned())
        }).await;
        assert!(matches!(failed, Err(Error::Body(no)) if no == "no"));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let done = |credited| lab.store.once_unless_declined(key("1"), async move |db| {
            credit(db, "a", credited).await?;
            Ok::<_, sqlx::Error>(Decision::Done(credited))
        });
        assert_eq!(done(5).await.unwrap(), Outcome::First(5));
        assert!(done(6).await.unwrap().is_duplicate());
        assert_eq!(lab.balance("a").await, 5);
    }

    /// What the body swallowed does not matter: all is given back.
    async fn after_a_swallowed_error_a_decline_is_one(lab: Lab) {
        for no in ["1", "2"] {
            let declined = lab.store.once_unless_declined(key(no), async |db| {
                credit(db, "a", 1).await?;
                swallow_an_error(db).await;
                Ok::<Decision<()>, sqlx::Error>(Decision::retry("not yet"))
            }).await.unwrap();
            assert_eq!(ignored(declined).why, Why::Declined);
            assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        }
        let done = lab.store.once(key("1"), async |db| credit(db, "a", 1).await).await.unwrap();
        assert!(done.is_first());
        assert_eq!(lab.balance("a").await, 1);
    }

    /// It cannot be given back any more, and the next delivery would be taken for a repeat: a person has to look.
    async fn after_a_commit_in_the_body_a_decline_is_a_fault(lab: Lab) {
        let listener = Listener::start();
        let ended = lab.store.once_unless_declined(key("1"), async |db| {
            credit(db, "a", 1).await?;
            raw(db, "COMMIT").await?;
            Ok::<Decision<()>, sqlx::Error>(Decision::retry("not yet"))
        }).await.unwrap_err();
        let Error::TransactionEnded(TransactionEnded { how, claim_durable, .. }) = ended else { panic!("{ended:?}") };
        assert_eq!((how, claim_durable), (Ending::Ended, Some(true)));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        let heard = listener.outcomes();
        let [event] = &heard[..] else { panic!("{heard:#?}") };
        assert_eq!((event.level, event.field("idem.outcome")), (Level::ERROR, Some("failed")));
    }

    /// A rollback of the body's own is told from one of the database's where the database makes none.
    async fn after_a_rollback_in_the_body_the_claim_is_free(lab: Lab) {
        let declined = lab.store.once_unless_declined(key("1"), async |db| {
            credit(db, "a", 1).await?;
            raw(db, "ROLLBACK").await?;
            Ok::<Decision<()>, sqlx::Error>(Decision::retry("not yet"))
        }).await;
        match declined {
            Ok(Outcome::Ignored(_)) => assert_ne!(DIALECT, Dialect::Postgres),
            Err(Error::TransactionEnded(ended)) => assert_eq!((DIALECT, ended.claim_durable), (Dialect::Postgres, Some(false))),
            other => panic!("{other:?}"),
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let done = lab.store.once(key("1"), async |db| credit(db, "a", 1).await).await.unwrap();
        assert!(done.is_first());
    }

    async fn savepoints_that_the_body_leaves_open_go_with_it(lab: Lab) {
        use sqlx::Connection as _;
        let store = lab.other_store(Lab::builder().max_connections(1)).await;
        let declined = store.once_unless_declined(key("1"), async |db| {
            let mut inner = db.begin().await?;
            credit(&mut inner, "a", 1).await?;
            std::mem::forget(inner);
            Ok::<Decision<()>, sqlx::Error>(Decision::retry("not yet"))
        }).await.unwrap();
        assert!(declined.is_ignored());
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert!(store.once(key("1"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        assert_eq!(lab.balance("a").await, 1);
        store.pool().close().await;
    }

    async fn dropped_at_any_await_nothing_is_left(lab: Lab) {
        let store = lab.other_store(Lab::builder().max_connections(1)).await;
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < 500, "the sweep does not end");
                let no = format!("{moment:?}-{wait}");
                let before = lab.balance("a").await;
                let done = drop_at(settle(&store, &no, Verdict::Wait), wait, moment).await;
                assert_eq!(settle(&store, &no, Verdict::Finish).await.unwrap(), Outcome::First(7), "{no}");
                assert_eq!(lab.balance("a").await, before + 1, "{no}");
                if done.is_some() {
                    break;
                }
            }
        }
        store.pool().close().await;
    }
}
