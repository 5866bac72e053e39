//! Promise 5: a delivery may be dropped at any await. Nothing of it is left open, no connection is lost, and the next
//! delivery of the action finds it either done as a whole or not at all.
//!
//! Covers C30. The sweeps drop the delivery at its first wait, at its second, and so on until it completes, on a pool of
//! one connection: what a dropped delivery leaves on it is what the next borrower gets. Servers are reached by a slow road,
//! so that every answer has to be waited for and no await is passed over.

use idem_runtime::{Claim, Error, Key, Outcome, SqliteStore, idempotent};
use idem_tests::{
    cancel::{
        Moment::{self, Answered, Asked},
        drop_at,
    },
    proxy::Proxy,
};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// What the delivery finds in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooled {
    /// No connection: it has to be made.
    Nothing,
    /// A connection on which no statement was prepared yet.
    Cold,
    /// A connection on which all statements were used.
    Warm,
}

/// Which way the dropped delivery was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    First,
    Duplicate,
    BodyError,
}

/// No future of these tests waits that often; a sweep that comes here does not end.
const TOO_MANY: usize = 500;

idem_tests::on_every_database! {
    given {
        #[idempotent(key = action, store = db, scope = "p05.pay")]
        async fn pay(db: &mut Conn, account: &str, action: &str, fail: bool) -> Result<(), sqlx::Error> {
            credit(db, account, 1).await?;
            // Something in flight after the write, too.
            execute(db, "UPDATE accounts SET balance = balance + 0 WHERE id = ?", &[account]).await?;
            if fail { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
        }

        /// The first attempt fails, so that the unit is repeated.
        #[idempotent(key = action, store = db, retry = 2)]
        async fn pay_at_second_try(db: &mut Conn, action: &str, tries: &AtomicU32) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await?;
            if tries.fetch_add(1, Ordering::SeqCst) == 0 { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
        }

        fn one_connection() -> idem_runtime::StoreBuilder<Conn> {
            Lab::builder().max_connections(1).acquire_timeout(Duration::from_secs(10))
        }

        /// The way to the database, and its URL there. There is none to a file.
        async fn slow_road(lab: &Lab) -> (Option<Proxy>, String) {
            let Some((_, rest)) = lab.url.split_once('@') else { return (None, lab.url.clone()) };
            let address: SocketAddr = rest.split('/').next().unwrap().parse().expect("an address with a port");
            let proxy = Proxy::start(address, Duration::from_millis(1)).await.unwrap();
            let url = proxy.in_url(&lab.url);
            (Some(proxy), url)
        }

        /// A sweep in which nothing was dropped proves nothing. SQLite is near, and now and then answers at once.
        fn assert_waited(wait: usize, round: &str) {
            assert!(wait > 2 || DIALECT == Dialect::Sqlite, "{round}");
        }

        async fn prepare(store: &Db, pooled: Pooled, round: &str) {
            if pooled == Pooled::Warm {
                let warm = format!("warm-{round}");
                assert!(pay(store, "b", &warm, true).await.is_err());
                assert!(pay(store, "b", &warm, false).await.unwrap().is_first());
                assert!(pay(store, "b", &warm, false).await.unwrap().is_duplicate());
                return;
            }
            store.pool().acquire().await.unwrap().close().await.unwrap();
            if pooled == Pooled::Cold {
                drop(store.pool().acquire().await.unwrap());
            }
        }

        /// What the next borrower of the pool's only connection writes is durable at once.
        async fn assert_next_borrower_unharmed(lab: &Lab, store: &Db, round: &str) {
            let mut next = store.pool().acquire().await.unwrap_or_else(|error| panic!("{round}: {error}"));
            raw(&mut next, &format!("INSERT INTO accounts VALUES ('{round}', 0)")).await.unwrap();
            let seen = lab.number(&format!("SELECT count(*) FROM accounts WHERE id = '{round}'")).await;
            assert_eq!(seen, 1, "{round}: the next borrower wrote into a transaction that was left open");
        }

        async fn sweep(lab: &Lab, path: Path) {
            let (_road, url) = slow_road(lab).await;
            let store = one_connection().connect(&url).await.unwrap();
            store.verify().await.unwrap();
            let mut paid = 0;
            let mut not_done = 0;
            for pooled in [Pooled::Nothing, Pooled::Cold, Pooled::Warm] {
                for moment in [Asked, Answered] {
                    for wait in 1.. {
                        assert!(wait < TOO_MANY);
                        let round = format!("{path:?}-{pooled:?}-{moment:?}-{wait}");
                        if path == Path::Duplicate {
                            assert!(pay(&store, "a", &round, false).await.unwrap().is_first());
                        }
                        prepare(&store, pooled, &round).await;
                        let done = drop_at(pay(&store, "a", &round, path == Path::BodyError), wait, moment).await;
                        assert_next_borrower_unharmed(lab, &store, &round).await;

                        // The balance counts, so a body that ran twice, or never, shows.
                        let again = pay(&store, "a", &round, false).await.unwrap_or_else(|error| panic!("{round}: {error}"));
                        paid += 1;
                        assert_eq!(lab.balance("a").await, paid, "{round}: then {again:?}");
                        let records =
                            lab.number(&format!("SELECT count(*) FROM idem_records WHERE action_key = '{round}'")).await;
                        assert_eq!(records, 1, "{round}");
                        match path {
                            Path::First => {}
                            Path::Duplicate => assert!(again.is_duplicate(), "{round}"),
                            Path::BodyError => assert!(again.is_first(), "{round}"),
                        }
                        not_done += u32::from(again.is_first());
                        let Some(done) = done else { continue };
                        match path {
                            Path::First => assert!(done.unwrap().is_first() && again.is_duplicate(), "{round}"),
                            Path::Duplicate => assert!(done.unwrap().is_duplicate(), "{round}"),
                            Path::BodyError => assert!(matches!(done, Err(Error::Body(_))), "{round}"),
                        }
                        assert_waited(wait, &round);
                        break;
                    }
                }
            }
            assert!(path == Path::Duplicate || not_done > 0, "no delivery was dropped before its end");
            lab.wait_until_calm().await;
            store.pool().close().await;
        }
    }

    async fn a_first_delivery_may_be_dropped_at_every_await(lab: Lab) {
        sweep(&lab, Path::First).await;
    }

    async fn a_duplicate_may_be_dropped_at_every_await(lab: Lab) {
        sweep(&lab, Path::Duplicate).await;
    }

    async fn a_failing_body_may_be_dropped_at_every_await(lab: Lab) {
        sweep(&lab, Path::BodyError).await;
    }

    async fn a_repeated_unit_may_be_dropped_at_every_await(lab: Lab) {
        let (_road, url) = slow_road(&lab).await;
        let store = one_connection().connect(&url).await.unwrap();
        let mut paid = 0;
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < TOO_MANY);
                let round = format!("repeated-{moment:?}-{wait}");
                let done = drop_at(pay_at_second_try(&store, &round, &AtomicU32::new(0)), wait, moment).await;
                assert_next_borrower_unharmed(&lab, &store, &round).await;
                let again = pay_at_second_try(&store, &round, &AtomicU32::new(1)).await.unwrap();
                paid += 1;
                assert_eq!(lab.balance("a").await, paid, "{round}: then {again:?}");
                if let Some(done) = done {
                    assert!(done.unwrap().is_first() && again.is_duplicate(), "{round}");
                    assert_waited(wait, &round);
                    break;
                }
            }
        }
        lab.wait_until_calm().await;
        store.pool().close().await;
    }

    /// The first unit of a store looks at the record table, with statements that are prepared for the first time. What a
    /// server answers to that is long, so the delivery is dropped in the middle of answers, too.
    async fn the_first_unit_of_a_store_may_be_dropped_at_every_await(lab: Lab) {
        let (road, url) = slow_road(&lab).await;
        let mut paid = 0;
        for moment in [Asked, Answered] {
            if let Some(road) = &road {
                road.answer_in_pieces(if moment == Asked { 4 } else { 1 });
            }
            for wait in 1.. {
                assert!(wait < TOO_MANY);
                let round = format!("new-{moment:?}-{wait}");
                let store = one_connection().connect(&url).await.unwrap();
                let done = drop_at(pay(&store, "a", &round, false), wait, moment).await;
                assert_next_borrower_unharmed(&lab, &store, &round).await;
                let again = pay(&store, "a", &round, false).await.unwrap_or_else(|error| panic!("{round}: {error}"));
                paid += 1;
                assert_eq!(lab.balance("a").await, paid, "{round}: then {again:?}");
                store.pool().close().await;
                if done.is_some() {
                    assert_waited(wait, &round);
                    break;
                }
            }
        }
        lab.wait_until_calm().await;
    }

    async fn migrating_may_be_dropped_at_every_await(lab: Lab) {
        let (_road, url) = slow_road(&lab).await;
        let store = one_connection().table("migrated").connect(&url).await.unwrap();
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < TOO_MANY);
                let round = format!("migrating-{moment:?}-{wait}");
                let done = drop_at(store.migrate(), wait, moment).await;
                assert_next_borrower_unharmed(&lab, &store, &round).await;
                store.migrate().await.unwrap_or_else(|error| panic!("{round}: {error}"));
                lab.wait_until_calm().await;
                let mut admin = lab.pool.acquire().await.unwrap();
                raw(&mut admin, "DROP TABLE migrated").await.unwrap();
                if done.is_some() {
                    assert_waited(wait, &round);
                    break;
                }
            }
        }
        store.pool().close().await;
    }

    /// The server goes on waiting for the holder; the pool must not. On SQLite the wait is inside the library, and ends
    /// with the lock wait.
    async fn a_delivery_dropped_while_it_waits_for_a_claim_gives_its_connection_back(lab: Lab) {
        let lock_wait = if DIALECT == Dialect::Sqlite { 1 } else { 60 };
        let store = lab.other_store(one_connection().lock_wait(Duration::from_secs(lock_wait))).await;
        let mut paid = 0;
        let (mut committed, mut rolled_back) = (false, false);
        for wait in 1.. {
            assert!(wait < TOO_MANY);
            let holder_commits = wait % 2 == 0;
            let round = format!("blocked-{wait}");
            // Through another store, as another process would hold it.
            let key = Key::scope("p05.pay").part(&round).finish();
            let Claim::First(mut holder) = lab.store.claim(key).await.unwrap() else { panic!("not first") };
            credit(holder.connection(), "a", 1).await.unwrap();

            // A task of its own, so that looking at the database is no wait of the delivery.
            let delivery = tokio::spawn({
                let (store, round) = (store.clone(), round.clone());
                async move { drop_at(pay(&store, "a", &round, false), wait, Asked).await }
            });
            let stop = delivery.abort_handle();
            let blocked = tokio::select! {
                done = delivery => {
                    let done = done.unwrap();
                    assert!(done.is_none(), "{round}: {done:?}");
                    false
                }
                () = lab.wait_until_blocked(1) => true,
            };
            stop.abort();
            // The holder is still there.
            let mut next = store.pool().acquire().await.unwrap_or_else(|error| panic!("{round}: {error}"));
            if DIALECT == Dialect::Sqlite {
                raw(&mut next, "SELECT 1").await.unwrap();
            }
            drop(next);
            if DIALECT != Dialect::Sqlite {
                assert_next_borrower_unharmed(&lab, &store, &round).await;
            }

            if holder_commits {
                assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
            } else {
                drop(holder);
            }
            let again = pay(&store, "a", &round, false).await.unwrap();
            assert_eq!(again.is_duplicate(), holder_commits, "{round}");
            paid += 1;
            assert_eq!(lab.balance("a").await, paid, "{round}: then {again:?}");
            if blocked {
                *(if holder_commits { &mut committed } else { &mut rolled_back }) = true;
            }
            if committed && rolled_back {
                break;
            }
        }
        lab.wait_until_calm().await;
        store.pool().close().await;
    }

    /// Deliveries that race for few keys and few connections, most of them dropped, each at another wait.
    async fn a_storm_of_dropped_deliveries_loses_nothing(lab: Lab) {
        let store = lab.other_store(one_connection().max_connections(3)).await;
        let mut storm = Vec::new();
        for number in 0..60_usize {
            let store = store.clone();
            storm.push(tokio::spawn(async move {
                let action = format!("storm-{}", number % 6);
                let moment = if number % 2 == 0 { Asked } else { Answered };
                // A delivery that waits in vain, or is in the way of others, may say so; it may not do harm.
                drop_at(pay(&store, "a", &action, number % 5 == 0), 1 + number % 13, moment).await.is_some()
            }));
        }
        let mut dropped = 0;
        for delivery in storm {
            dropped += i32::from(!delivery.await.unwrap());
        }
        assert!(dropped > 0);
        for number in 0..6 {
            let _: Outcome<()> = pay(&store, "a", &format!("storm-{number}"), false).await.unwrap();
        }
        assert_eq!(lab.balance("a").await, 6);
        assert_eq!(lab.claims().await, 6);
        lab.wait_until_calm().await;
        let mut all = Vec::new();
        for _ in 0..store.pool().options().get_max_connections() {
            all.push(store.pool().acquire().await.unwrap());
        }
        drop(all);
        store.pool().close().await;
    }
}

/// Closing the last connection of a database in memory erases it, and dropped deliveries close theirs.
#[test]
fn a_database_in_memory_survives_dropped_deliveries() {
    use idem_tests::sqlite::{credit, raw};

    async fn sweep(store: &SqliteStore, moment: Moment, paid: &mut i64) {
        for wait in 1.. {
            assert!(wait < TOO_MANY);
            let pay = || {
                let key = Key::scope("p05.memory").part(&format!("{moment:?}-{wait}")).finish();
                store.once(key, async |db| credit(db, "a", 1).await)
            };
            let done = drop_at(pay(), wait, moment).await;
            let _: Outcome<()> = pay().await.unwrap();
            *paid += 1;
            let balance: i64 = sqlx::query_scalar("SELECT balance FROM accounts WHERE id = 'a'")
                .fetch_one(store.pool())
                .await
                .unwrap();
            assert_eq!(balance, *paid, "{moment:?} {wait}");
            if done.is_some() {
                break;
            }
        }
    }

    idem_tests::run(async {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        let mut db = store.pool().acquire().await.unwrap();
        raw(&mut db, "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INT); INSERT INTO accounts VALUES ('a', 0)")
            .await
            .unwrap();
        drop(db);
        let mut paid = 0;
        for moment in [Asked, Answered] {
            sweep(&store, moment, &mut paid).await;
        }
    });
}
