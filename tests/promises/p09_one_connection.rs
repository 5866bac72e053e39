//! Promise 9: a unit needs one connection. Duplicates hold theirs no longer than the configured wait.
//!
//! Covers C32: a body that takes a second connection from the pool. It stands still until the pool's acquire timeout, gets
//! its own error, and nothing is claimed; what it writes through the pool is outside the unit.

use idem_runtime::{Advice, Busy, Claim, Error, Key, KeyError, idempotent};
use idem_tests::proxy::{Cut, Proxy};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Barrier;

/// What only the closing statement of a unit holds.
const COMMIT: &str = "RELEASE SAVEPOINT idem_guard; COMMIT";

fn key(action: &str) -> Result<Key, KeyError> {
    Key::scope("p09.pay").part(action).finish()
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = action, store = db, scope = "p09.pay")]
        async fn pay(db: &mut Conn, action: &str, fail: bool) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await?;
            if fail { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
        }

        #[idempotent(key = action, store = db, retry = 2)]
        async fn pay_at_second_try(db: &mut Conn, action: &str, tries: &AtomicU32) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await?;
            if tries.fetch_add(1, Ordering::SeqCst) == 0 { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
        }

        /// The mistake of C32: the body uses the pool although it is given a connection.
        #[idempotent(key = action, store = db, scope = "p09.pay")]
        async fn pay_asking_the_pool(db: &mut Conn, pool: &Pool, action: &str, all: &Barrier) -> Result<(), sqlx::Error> {
            execute(db, "INSERT INTO accounts VALUES (?, 1)", &[action]).await?;
            all.wait().await;
            let mut second = pool.acquire().await?;
            raw(&mut second, "SELECT 1").await
        }

        fn pool_of(connections: u32, acquire_timeout: Duration) -> idem_runtime::StoreBuilder<Conn> {
            Lab::builder().max_connections(connections).acquire_timeout(acquire_timeout)
        }

        /// Every path of a unit, on a store whose pool has one connection.
        async fn walk_every_path(lab: &Lab, store: &Db, name: &str) {
            let before = lab.balance("a").await;
            let action = |path: &str| format!("{name}-{path}");
            // The store has not looked at its table yet.
            assert!(pay(store, &action("plain"), false).await.unwrap().is_first());
            assert!(pay(store, &action("plain"), false).await.unwrap().is_duplicate());
            assert!(matches!(pay(store, &action("error"), true).await, Err(Error::Body(_))));
            assert!(pay(store, &action("error"), false).await.unwrap().is_first());
            assert!(pay_at_second_try(store, &action("retry"), &AtomicU32::new(0)).await.unwrap().is_first());
            // A body that ends the transaction: the claim is asked for.
            let ended = store.once(key(&action("ended")), async |db| raw(db, "ROLLBACK").await).await;
            assert!(matches!(ended, Err(Error::TransactionEnded(_))), "{ended:?}");
            assert!(pay(store, &action("ended"), false).await.unwrap().is_first());
            let Claim::First(unit) = store.claim(key(&action("dropped"))).await.unwrap() else { panic!("not first") };
            drop(unit);
            assert!(pay(store, &action("dropped"), false).await.unwrap().is_first());
            store.verify().await.unwrap();
            store.migrate().await.unwrap();
            assert_eq!(lab.balance("a").await, before + 5);
            assert_eq!(store.pool().options().get_max_connections(), 1);
        }
    }

    async fn one_connection_is_enough_for_every_path(lab: Lab) {
        let store = lab.other_store(pool_of(1, Duration::from_secs(5))).await;
        walk_every_path(&lab, &store, "own").await;
        store.pool().close().await;
    }

    async fn one_connection_of_the_applications_pool_is_enough_for_every_path(lab: Lab) {
        let pool = PoolOptions::new().max_connections(1).acquire_timeout(Duration::from_secs(5)).connect(&lab.url).await.unwrap();
        walk_every_path(&lab, &Db::new(pool.clone()), "shared").await;
        pool.close().await;
    }

    /// The connection is thrown away only when something is wrong with it: reconnecting at each repeat or body error
    /// would cost more than the unit.
    async fn a_unit_that_ends_gives_its_connection_back(lab: Lab) {
        let store = lab.other_store(pool_of(1, Duration::from_secs(5))).await;
        let mut marked = store.pool().acquire().await.unwrap();
        raw(&mut marked, "CREATE TEMPORARY TABLE mark (n INT)").await.unwrap();
        drop(marked);
        for (fail, what) in [(true, "body error"), (false, "first"), (false, "repeat")] {
            assert_eq!(pay(&store, "one", fail).await.is_err(), fail);
            let mut same = store.pool().acquire().await.unwrap();
            raw(&mut same, "INSERT INTO mark VALUES (1)").await.unwrap_or_else(|error| panic!("after {what}: {error}"));
        }
        store.pool().close().await;
    }

    async fn a_body_that_takes_the_second_connection_of_one_gets_its_own_error(lab: Lab) {
        let store = lab.other_store(pool_of(1, Duration::from_secs(1))).await;
        store.verify().await.unwrap();
        let pool = store.pool().clone();
        let stuck = pay_asking_the_pool(&store, &pool, "one", &Barrier::new(1)).await;
        assert!(matches!(stuck, Err(Error::Body(sqlx::Error::PoolTimedOut))), "{stuck:?}");
        assert_eq!((lab.rows("accounts").await, lab.claims().await), (2, 0));
        assert!(pay(&store, "one", false).await.unwrap().is_first());
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        store.pool().close().await;
    }

    /// Each unit of five holds one of five connections and waits for another: all stall, and none hangs.
    async fn five_bodies_that_take_a_second_connection_of_five_all_come_to_an_end(lab: Lab) {
        let store = lab.other_store(pool_of(5, Duration::from_millis(500)).lock_wait(Duration::from_secs(20))).await;
        store.verify().await.unwrap();
        // All five hold their connection before one asks for another; on SQLite there is one at a time.
        let all = Arc::new(Barrier::new(if DIALECT == Dialect::Sqlite { 1 } else { 5 }));
        let mut deliveries = Vec::new();
        for number in 0..5 {
            let (store, all) = (store.clone(), all.clone());
            deliveries.push(tokio::spawn(async move {
                let pool = store.pool().clone();
                pay_asking_the_pool(&store, &pool, &format!("five-{number}"), &all).await
            }));
        }
        let mut firsts = 0;
        for delivery in deliveries {
            match delivery.await.unwrap() {
                Ok(outcome) => {
                    // One that fails gives its connection back, and another may get it.
                    assert!(outcome.is_first());
                    firsts += 1;
                }
                Err(Error::Body(sqlx::Error::PoolTimedOut)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!((lab.rows("accounts").await, lab.claims().await), (2 + firsts, firsts));
        assert!(firsts < 5, "no body had to wait");
        for number in 0..5 {
            let _ = pay(&store, &format!("five-{number}"), false).await.unwrap();
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (5 - firsts, 5));
        store.pool().close().await;
    }

    async fn when_every_connection_is_held_the_claim_is_busy_and_says_why(lab: Lab) {
        let timeout = Duration::from_millis(700);
        for verified in [false, true] {
            let store = lab.other_store(pool_of(1, timeout)).await;
            if verified {
                store.verify().await.unwrap();
            }
            let held = store.pool().acquire().await.unwrap();
            let busy = store.once(key("one"), async |_| -> Result<(), sqlx::Error> { panic!("the body was entered") }).await;
            let Err(Error::Busy(Busy::NoConnection(waited))) = &busy else { panic!("{busy:?}") };
            assert_eq!(*waited, timeout);
            let busy = busy.unwrap_err();
            assert!(busy.is_retryable());
            assert_eq!(busy.advice(), Advice::RetryLater);
            assert!(busy.to_string().contains("Does a body use the pool instead of the connection it is given?"), "{busy}");
            assert_eq!(lab.claims().await, 0);
            drop(held);
            let outcome = pay(&store, "one", true).await;
            assert!(matches!(outcome, Err(Error::Body(_))), "{outcome:?}");
            store.pool().close().await;
        }
    }
}

mod servers {
    use super::{COMMIT, Cut, Proxy, SocketAddr, key};
    use idem_runtime::{Busy, Claim, Error, Outcome};
    use std::time::Duration;

    idem_tests::on_every_server! {
        given {
            async fn pay(store: &Db, action: &str) -> Result<Outcome<()>, Error<sqlx::Error>> {
                store.once(key(action), async |db| credit(db, "a", 1).await).await
            }
        }

        /// The connection on which the answer to COMMIT was lost is given up before the database is asked.
        async fn one_connection_is_enough_to_settle_a_lost_commit(lab: Lab) {
            let (_, rest) = lab.url.split_once('@').unwrap();
            let address: SocketAddr = rest.split('/').next().unwrap().parse().unwrap();
            let proxy = Proxy::start(address, Duration::ZERO).await.unwrap();
            let store = Lab::builder()
                .max_connections(1)
                .acquire_timeout(Duration::from_millis(500))
                .connect(&proxy.in_url(&lab.url))
                .await
                .unwrap();
            proxy.cut_once(COMMIT, Cut::After).await;
            let committed = pay(&store, "after").await;
            assert!(matches!(committed, Ok(Outcome::First(()))), "{committed:?}");
            proxy.cut_once(COMMIT, Cut::Before).await;
            let lost = pay(&store, "before").await;
            assert!(matches!(&lost, Err(Error::Database(_))), "{lost:?}");
            assert_eq!(proxy.cuts(), 2);
            assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
            assert!(pay(&store, "before").await.unwrap().is_first());
            assert_eq!(lab.balance("a").await, 2);
            store.pool().close().await;
        }

        async fn a_write_through_the_pool_survives_the_rollback(lab: Lab) {
            let store = lab.other_store(Lab::builder().max_connections(2)).await;
            let failed = store.once(key("outside"), async |db| {
                credit(db, "a", 1).await?;
                let mut outside = store.pool().acquire().await?;
                credit(&mut outside, "b", 1).await?;
                Err::<(), _>(sqlx::Error::RowNotFound)
            }).await;
            assert!(matches!(failed, Err(Error::Body(sqlx::Error::RowNotFound))), "{failed:?}");
            assert_eq!((lab.balance("a").await, lab.balance("b").await, lab.claims().await), (0, 1, 0));
            store.pool().close().await;
        }

        async fn duplicates_hold_their_connections_no_longer_than_the_lock_wait(lab: Lab) {
            let store = lab.other_store(
                Lab::builder().max_connections(3).lock_wait(Duration::from_secs(1)).acquire_timeout(Duration::from_secs(30)),
            ).await;
            store.verify().await.unwrap();
            let Claim::First(mut holder) = lab.store.claim(key("held")).await.unwrap() else { panic!("not first") };
            credit(holder.connection(), "b", 1).await.unwrap();
            let mut duplicates = Vec::new();
            for _ in 0..3 {
                let store = store.clone();
                duplicates.push(tokio::spawn(async move { pay(&store, "held").await }));
            }
            lab.wait_until_blocked(3).await;
            // Every connection is in the hands of a duplicate, the holder stays, and other actions proceed.
            for number in 0..6 {
                assert!(pay(&store, &format!("other-{number}")).await.unwrap().is_first());
            }
            for duplicate in duplicates {
                let busy = duplicate.await.unwrap();
                let Err(Error::Busy(Busy::Claimed(waited))) = busy else { panic!("{busy:?}") };
                assert_eq!(waited, Duration::from_secs(1));
            }
            assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
            assert!(pay(&store, "held").await.unwrap().is_duplicate());
            assert_eq!((lab.balance("a").await, lab.balance("b").await), (6, 1));
            store.pool().close().await;
        }
    }
}

/// On SQLite there is one writer, so duplicates wait for it in the store, with no connection; and what a body writes past
/// its unit is refused by the database, since its own unit is that writer.
mod sqlite_only {
    use super::key;
    use idem_runtime::{Busy, Claim, Error, SqliteStore};
    use idem_tests::sqlite::{ConnectOptions, Lab, PoolOptions, credit};
    use std::{str::FromStr as _, time::Duration};

    #[test]
    fn a_write_through_another_pool_is_refused_while_the_unit_writes() {
        idem_tests::run(async {
            let lab = Lab::new().await;
            let impatient = ConnectOptions::from_str(&lab.url).unwrap().busy_timeout(Duration::from_millis(50));
            let pool = PoolOptions::new().connect_with(impatient).await.unwrap();
            let failed = lab
                .store
                .once(key("outside"), async |db| {
                    credit(db, "a", 1).await?;
                    let mut outside = pool.acquire().await?;
                    credit(&mut outside, "b", 1).await
                })
                .await;
            let Err(Error::Body(error)) = failed else { panic!("{failed:?}") };
            assert!(error.to_string().contains("database is locked"), "{error}");
            assert_eq!((lab.balance("a").await, lab.balance("b").await, lab.claims().await), (0, 0, 0));
            pool.close().await;
            lab.close().await;
        });
    }

    #[test]
    fn duplicates_wait_for_the_writer_no_longer_than_the_lock_wait() {
        idem_tests::run(async {
            let lab = Lab::new().await;
            // The application's own pool, with connections to spare; readers give up sooner than duplicates.
            let options = PoolOptions::new().max_connections(4).acquire_timeout(Duration::from_secs(1));
            let pool = options.connect(&lab.url).await.unwrap();
            let wait = Duration::from_secs(3);
            let store = SqliteStore::builder().lock_wait(wait).pool(pool.clone()).unwrap();
            store.verify().await.unwrap();
            let Claim::First(mut holder) = store.claim(key("held")).await.unwrap() else { panic!("not first") };
            credit(holder.connection(), "b", 1).await.unwrap();
            let mut duplicates = Vec::new();
            for _ in 0..6 {
                let store = store.clone();
                duplicates.push(tokio::spawn(async move {
                    store.once(key("held"), async |db| credit(db, "a", 1).await).await
                }));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            // Readers find connections while they wait.
            let mut readers = Vec::new();
            for _ in 0..3 {
                readers.push(pool.acquire().await.unwrap());
            }
            for duplicate in duplicates {
                let busy = duplicate.await.unwrap();
                let Err(Error::Busy(Busy::Claimed(waited))) = busy else { panic!("{busy:?}") };
                assert_eq!(waited, wait);
            }
            drop(readers);
            assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
            let again = store.once(key("held"), async |db| credit(db, "a", 1).await).await;
            assert!(again.unwrap().is_duplicate());
            assert_eq!((lab.balance("a").await, lab.balance("b").await), (0, 1));
            pool.close().await;
            lab.close().await;
        });
    }
}
