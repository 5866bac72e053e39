//! Promise 8: a COMMIT whose answer was lost is resolved by the claim row and its attempt token, never by running the
//! body again. Case C23.
//!
//! A proxy breaks the connection on which the client sends COMMIT: before the server hears of it, or after the server
//! has answered. SQLite has no connection to break.

use idem_runtime::{Error, Key, KeyError, Outcome};
use idem_tests::proxy::{Cut, Proxy};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// What only the closing statement of a unit holds ("COMMIT" is also in READ COMMITTED).
const COMMIT: &str = "RELEASE SAVEPOINT idem_guard; COMMIT";

fn key() -> Result<Key, KeyError> {
    Key::scope("p08").part("one").delivery("d-1").finish()
}

async fn proxy_to(url: &str) -> Proxy {
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let address: SocketAddr = rest.split('/').next().unwrap_or_default().parse().expect("an address with a port");
    Proxy::start(address, Duration::ZERO).await.expect("a proxy")
}

idem_tests::on_every_server! {
    given {
        use idem_runtime::idempotent;

        #[idempotent(key = order_no, store = db, retry = 3)]
        async fn retried(db: &mut Conn, order_no: &str, entered: &AtomicUsize) -> Result<(), sqlx::Error> {
            entered.fetch_add(1, Ordering::SeqCst);
            credit(db, "a", 100).await
        }
    }

    async fn committed_is_first_and_the_body_ran_once(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = Lab::builder().connect(&proxy.in_url(&lab.url)).await.unwrap();
        let entered = AtomicUsize::new(0);
        proxy.cut_once(COMMIT, Cut::After).await;
        let outcome = store.once(key(), async |db| {
            entered.fetch_add(1, Ordering::SeqCst);
            credit(db, "a", 100).await
        }).await;
        assert_eq!(proxy.cuts(), 1, "the answer was not lost");
        assert!(matches!(outcome, Ok(Outcome::First(()))), "{outcome:?}");
        assert_eq!(entered.load(Ordering::SeqCst), 1);
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        let again = store.once(key(), async |db| credit(db, "a", 100).await).await.unwrap();
        assert!(again.is_duplicate());
        assert_eq!(lab.balance("a").await, 100);
        store.pool().close().await;
    }

    async fn not_committed_is_a_retryable_error_and_a_redelivery_runs(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = Lab::builder().connect(&proxy.in_url(&lab.url)).await.unwrap();
        proxy.cut_once(COMMIT, Cut::Before).await;
        let lost = store.once(key(), async |db| credit(db, "a", 100).await).await;
        assert_eq!(proxy.cuts(), 1, "the connection was not broken");
        assert!(matches!(&lost, Err(Error::Database(_))), "{lost:?}");
        assert!(lost.unwrap_err().is_retryable());
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert!(store.once(key(), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    async fn with_retry_the_body_runs_again_only_if_it_was_not_committed(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = Lab::builder().connect(&proxy.in_url(&lab.url)).await.unwrap();
        for (order_no, cut, bodies) in [("applied", Cut::After, 1), ("not-applied", Cut::Before, 2)] {
            let entered = AtomicUsize::new(0);
            let before = lab.balance("a").await;
            proxy.cut_once(COMMIT, cut).await;
            let outcome = retried(&store, order_no, &entered).await;
            assert!(outcome.unwrap().is_first());
            assert_eq!(entered.load(Ordering::SeqCst), bodies, "{order_no}");
            assert_eq!(lab.balance("a").await, before + 100, "{order_no}");
        }
        assert_eq!(proxy.cuts(), 2);
        store.pool().close().await;
    }

    async fn when_another_delivery_did_it_the_outcome_is_duplicate(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = Lab::builder().acquire_timeout(Duration::from_millis(200)).connect(&proxy.in_url(&lab.url)).await.unwrap();
        let claim = store.claim(key()).await.unwrap();
        let idem_runtime::Claim::First(mut unit) = claim else { panic!("not first") };
        credit(unit.connection(), "a", 100).await.unwrap();
        // Nobody can be asked until another delivery has done the action.
        proxy.break_all();
        proxy.refuse(true);
        let first = tokio::spawn(async move { unit.commit::<_, sqlx::Error>(()).await });
        let other = Key::scope("p08").part("one").delivery("d-2").finish();
        let done = lab.store.once(other, async |db| credit(db, "a", 100).await).await.unwrap();
        assert!(done.is_first());
        proxy.refuse(false);
        match first.await.unwrap() {
            Ok(Outcome::Duplicate(seen)) => assert_eq!(seen.delivery_id.as_deref(), Some("d-2")),
            other => panic!("{other:?}"),
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        store.pool().close().await;
    }

    async fn when_nobody_can_be_asked_the_error_says_unknown_and_a_redelivery_decides(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = Lab::builder().acquire_timeout(Duration::from_millis(200)).connect(&proxy.in_url(&lab.url)).await.unwrap();
        store.verify().await.unwrap();
        let claim = store.claim(key()).await.unwrap();
        let idem_runtime::Claim::First(mut unit) = claim else { panic!("not first") };
        credit(unit.connection(), "a", 100).await.unwrap();
        // Idle connections of the pool must not answer either.
        proxy.break_all();
        proxy.refuse(true);
        let unknown = unit.commit::<_, sqlx::Error>(()).await;
        assert!(matches!(unknown, Err(Error::CommitUnknown(_))), "{unknown:?}");
        assert!(unknown.unwrap_err().is_retryable());
        let redelivered = lab.store.once(key(), async |db| credit(db, "a", 100).await).await.unwrap();
        let effects = lab.balance("a").await;
        assert_eq!((effects, lab.claims().await), (100, 1), "{redelivered:?}");
        store.pool().close().await;
    }

    /// A network that swallows the answer without breaking the connection, as after a fail-over.
    async fn an_answer_that_never_comes_is_a_lost_one(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store =
            Lab::builder().answer_timeout(Duration::from_millis(300)).connect(&proxy.in_url(&lab.url)).await.unwrap();
        let entered = AtomicUsize::new(0);
        for pattern in [COMMIT, "SAVEPOINT idem_guard"] {
            proxy.cut_once(pattern, Cut::Silent).await;
            let fact = Key::scope("p08").part(pattern).finish();
            let outcome = store.once(fact, async |db| {
                entered.fetch_add(1, Ordering::SeqCst);
                credit(db, "a", 100).await
            }).await;
            assert!(matches!(outcome, Ok(Outcome::First(()))), "{pattern}: {outcome:?}");
        }
        assert_eq!(proxy.cuts(), 2);
        assert_eq!(entered.load(Ordering::SeqCst), 2);
        assert_eq!((lab.balance("a").await, lab.claims().await), (200, 2));
        store.pool().close().await;
    }
}
