//! Promise 6: conflicts over a claim and dead connections start the unit again by themselves, since no user code has
//! run; a body that has started runs again only where `retry` says so. Cases C26, C28, C29 and C32.

use idem_runtime::{Claim, Error, Isolation, Key, KeyError, KeyPart, KeyWriter, Outcome, Phase, Stable, idempotent};
use idem_tests::logs::Listener;
use sqlx::{Connection as _, Executor as _};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Barrier;

/// An order number that counts how often it is made part of a key.
#[derive(Debug, Default)]
struct OrderNo {
    text: &'static str,
    written: AtomicUsize,
}

impl KeyPart for OrderNo {
    type Risk = Stable;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        self.written.fetch_add(1, Ordering::SeqCst);
        out.text(self.text);
    }
}

/// A message that cannot be copied, so that a repeated body can only borrow it.
struct Message {
    order_no: OrderNo,
    /// How many attempts fail.
    failures: usize,
    entered: AtomicUsize,
}

impl Message {
    fn new(text: &'static str, failures: usize) -> Self {
        Self { order_no: OrderNo { text, ..OrderNo::default() }, failures, entered: AtomicUsize::new(0) }
    }

    /// Enters a body; whether it is to fail.
    fn enter(&self) -> bool {
        self.entered.fetch_add(1, Ordering::SeqCst) < self.failures
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }
}

/// A fault that the application knows of.
#[derive(Debug, PartialEq)]
struct NotYet(usize);

idem_tests::on_every_database! {
    given {
        #[idempotent(key = message.order_no, store = db, scope = "p06")]
        async fn once(db: &mut Conn, message: &Message) -> Result<usize, NotYet> {
            let fails = message.enter();
            credit(db, "a", 1).await.expect("the credit");
            if fails { Err(NotYet(message.entered())) } else { Ok(message.entered()) }
        }

        /// Takes the message by value: a body that may run again borrows it all the same.
        #[idempotent(key = message.order_no, store = db, scope = "p06", retry = 3)]
        async fn up_to_four_times(db: &mut Conn, message: Arc<Message>) -> Result<usize, NotYet> {
            let fails = message.enter();
            credit(db, "a", 1).await.expect("the credit");
            if fails { Err(NotYet(message.entered())) } else { Ok(message.entered()) }
        }

        #[idempotent(key = message.order_no, store = db, scope = "p06", retry = 3)]
        async fn swallowing(db: &mut Conn, message: &Message, sql: &str) -> Result<(), sqlx::Error> {
            message.enter();
            credit(db, "a", 1).await?;
            let _ = raw(db, sql).await;
            Ok(())
        }

        #[idempotent(key = order_no?, store = db, scope = "p06", retry = 3)]
        async fn of_an_order(db: &mut Conn, order_no: Option<&str>, entered: &AtomicUsize) -> Result<(), sqlx::Error> {
            entered.fetch_add(1, Ordering::SeqCst);
            credit(db, "a", 1).await
        }

        fn key(part: &str) -> Result<Key, KeyError> {
            Key::scope("p06").part(part).finish()
        }
    }

    async fn when_holders_fail_each_action_is_done_once_and_nobody_sees_an_error(lab: Lab) {
        const KEYS: usize = 10;
        const DELIVERIES: usize = 8;
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(30)).max_connections(8)).await;
        let entered = Arc::new(AtomicUsize::new(0));
        let mut failures = 0;
        for n in 0..KEYS {
            let start = Arc::new(Barrier::new(DELIVERIES));
            // Of every fifth body the first run fails: its waiters run for the key at once, and deadlock on MySQL.
            let failing = Arc::new(AtomicUsize::new(usize::from(n % 5 == 0)));
            let mut deliveries = Vec::new();
            for _ in 0..DELIVERIES {
                let (store, start, failing, entered) = (store.clone(), start.clone(), failing.clone(), entered.clone());
                deliveries.push(tokio::spawn(async move {
                    start.wait().await;
                    store.once(key(&format!("order-{n}")), async |db| {
                        entered.fetch_add(1, Ordering::SeqCst);
                        credit(db, "a", 1).await.expect("the credit");
                        // The others are to wait by now.
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        if failing.swap(0, Ordering::SeqCst) == 1 { Err(NotYet(n)) } else { Ok(()) }
                    }).await
                }));
            }
            let (mut firsts, mut failed) = (0, 0);
            for delivery in deliveries {
                match delivery.await.unwrap() {
                    Ok(Outcome::First(())) => firsts += 1,
                    Ok(Outcome::Duplicate(_)) => {}
                    Err(Error::Body(NotYet(_))) => failed += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(failed, usize::from(n % 5 == 0));
            assert_eq!(firsts, 1, "order-{n}");
            failures += failed;
        }
        let keys = i64::try_from(KEYS).unwrap();
        assert_eq!((lab.claims().await, lab.balance("a").await), (keys, keys));
        assert_eq!(entered.load(Ordering::SeqCst), KEYS + failures, "a body was entered that had no claim");
    }

    async fn waiters_of_a_holder_that_fails_start_again_by_themselves(lab: Lab) {
        // Certain where the test above is likely: on MySQL two waiters of one key deadlock when the holder rolls back.
        for round in 0..5 {
            let part = format!("round-{round}");
            let Claim::First(mut holder) = lab.store.claim(key(&part)).await.unwrap() else { panic!("not first") };
            credit(holder.connection(), "b", 1).await.unwrap();
            let mut waiters = Vec::new();
            for _ in 0..3 {
                let (store, part) = (lab.store.clone(), part.clone());
                waiters.push(tokio::spawn(async move {
                    store.once(key(&part), async |db| credit(db, "a", 1).await).await
                }));
            }
            lab.wait_until_blocked(3).await;
            assert!(holder.roll_back::<(), (), _>("declined").await.is_err());
            let mut firsts = 0;
            for waiter in waiters {
                firsts += usize::from(waiter.await.unwrap().unwrap().is_first());
            }
            assert_eq!(firsts, 1);
        }
        assert_eq!((lab.claims().await, lab.balance("a").await, lab.balance("b").await), (5, 5, 0));
    }

    async fn at_every_isolation_level_claims_start_again_by_themselves(lab: Lab) {
        for isolation in [
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::Serializable,
            Isolation::DatabaseDefault,
        ] {
            let store = lab.other_store(Lab::builder().isolation(isolation)).await;
            let paid = lab.balance("a").await;
            let part = format!("{isolation:?}");
            let Claim::First(mut holder) = store.claim(key(&part)).await.unwrap() else { panic!("not first") };
            credit(holder.connection(), "a", 1).await.unwrap();
            let mut waiters = Vec::new();
            for _ in 0..4 {
                let (store, part) = (store.clone(), part.clone());
                waiters.push(tokio::spawn(async move {
                    store.once(key(&part), async |_| -> Result<(), NotYet> { panic!("the body was entered") }).await
                }));
            }
            lab.wait_until_blocked(4).await;
            assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
            for waiter in waiters {
                let outcome = waiter.await.unwrap();
                assert!(matches!(outcome, Ok(Outcome::Duplicate(_))), "{isolation:?}: {outcome:?}");
            }
            assert_eq!(lab.balance("a").await, paid + 1);
        }
        assert_eq!(lab.claims().await, 4);
    }

    async fn writers_on_different_keys_do_not_fail_each_other(lab: Lab) {
        const WRITERS: usize = 8;
        // Several stores over one database, as several processes would have; a reader stays in its transaction.
        let mut reader = Conn::connect(&lab.url).await.unwrap();
        raw(&mut reader, "BEGIN; SELECT count(*) FROM orders").await.unwrap();
        let start = Arc::new(Barrier::new(WRITERS));
        let mut writers = Vec::new();
        for n in 0..WRITERS {
            let builder = Lab::builder().lock_wait(Duration::from_secs(20)).max_connections(2);
            let store = lab.other_store(builder).await;
            let start = start.clone();
            writers.push(tokio::spawn(async move {
                start.wait().await;
                store.once(key(&format!("order-{n}")), async |db| {
                    // Reads before it writes: on SQLite a transaction that began as a reader could not go on.
                    sqlx::query_scalar::<_, i64>("SELECT count(*) FROM orders").fetch_one(&mut *db).await?;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    raw(db, &format!("INSERT INTO orders VALUES ('order-{n}', 'a', 'NEW', 1)")).await
                }).await
            }));
        }
        for writer in writers {
            assert!(writer.await.unwrap().unwrap().is_first());
        }
        let writers = i64::try_from(WRITERS).unwrap();
        assert_eq!((lab.claims().await, lab.rows("orders").await), (writers, writers));
        raw(&mut reader, "COMMIT").await.unwrap();
    }

    async fn a_body_that_failed_is_not_repeated_unasked(lab: Lab) {
        let message = Message::new("one", 1);
        assert!(matches!(once(&lab.store, &message).await, Err(Error::Body(NotYet(1)))));
        assert_eq!((message.entered(), lab.claims().await, lab.balance("a").await), (1, 0, 0));
        assert!(matches!(once(&lab.store, &message).await, Ok(Outcome::First(2))));
        assert!(once(&lab.store, &message).await.unwrap().is_duplicate());
        assert_eq!((message.entered(), lab.claims().await, lab.balance("a").await), (2, 1, 1));
    }

    async fn with_retry_a_failed_body_runs_again_until_it_succeeds(lab: Lab) {
        for (failures, text) in [(0, "none"), (1, "one"), (2, "two"), (3, "three")] {
            let paid = lab.balance("a").await;
            let message = Arc::new(Message::new(text, failures));
            let listener = Listener::start();
            let done = up_to_four_times(&lab.store, message.clone()).await;
            assert!(matches!(done, Ok(Outcome::First(n)) if n == failures + 1), "{done:?}");
            assert_eq!(message.entered(), failures + 1);
            assert_eq!(message.order_no.written.load(Ordering::SeqCst), 1, "the key was computed again");
            let outcomes = listener.outcomes();
            assert_eq!(outcomes.len(), 1, "an attempt was reported as a delivery: {outcomes:#?}");
            assert_eq!(outcomes[0].field("idem.outcome"), Some("first"));
            assert_eq!(lab.balance("a").await, paid + 1, "a failed attempt left a write");
        }
        assert_eq!(lab.claims().await, 4);
    }

    async fn with_retry_a_body_runs_four_times_and_no_more(lab: Lab) {
        let message = Arc::new(Message::new("one", 4));
        let listener = Listener::start();
        let failed = up_to_four_times(&lab.store, message.clone()).await;
        assert!(matches!(failed, Err(Error::Body(NotYet(4)))), "{failed:?}");
        assert_eq!(message.entered(), 4);
        assert_eq!(message.order_no.written.load(Ordering::SeqCst), 1, "the key was computed again");
        assert_eq!((lab.claims().await, lab.balance("a").await), (0, 0));
        let outcomes = listener.outcomes();
        assert_eq!(outcomes.len(), 1, "an attempt was reported as a delivery: {outcomes:#?}");
        assert_eq!(outcomes[0].field("idem.outcome"), Some("failed"));
        // The redelivery runs.
        assert!(up_to_four_times(&lab.store, message).await.unwrap().is_first());
        assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
    }

    async fn retry_does_not_repeat_what_no_repetition_cures(lab: Lab) {
        // A body that ends the transaction: part of it is durable already.
        let message = Message::new("ended", 0);
        let ended = swallowing(&lab.store, &message, "COMMIT").await;
        assert!(matches!(ended, Err(Error::TransactionEnded(_))), "{ended:?}");
        assert_eq!((message.entered(), lab.balance("a").await), (1, 1));

        // A key that is missing.
        let entered = AtomicUsize::new(0);
        let missing = of_an_order(&lab.store, None, &entered).await;
        assert!(matches!(missing, Err(Error::Key(KeyError::Missing { .. }))), "{missing:?}");

        // A delivery in the way, and a repeat.
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(1))).await;
        let Claim::First(holder) = lab.store.claim(key("held")).await.unwrap() else { panic!("not first") };
        let listener = Listener::start();
        let busy = of_an_order(&store, Some("held"), &entered).await;
        assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
        assert_eq!(listener.events().len(), 1, "busy was repeated");
        assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        let _ = listener.events();
        assert!(of_an_order(&store, Some("held"), &entered).await.unwrap().is_duplicate());
        assert_eq!(listener.events().len(), 1, "a repeat was repeated");
        assert_eq!((entered.into_inner(), lab.claims().await, lab.balance("a").await), (0, 2, 1));
    }

    async fn a_commit_that_fails_the_same_way_each_time_is_not_repeated(lab: Lab) {
        if DIALECT == Dialect::MySql {
            // It has no constraints that are checked in the commit; a missing record table stands in.
            raw(&mut lab.pool.acquire().await.unwrap(), "DROP TABLE idem_records").await.unwrap();
            let message = Message::new("one", 0);
            let failed = swallowing(&lab.store, &message, "DO 0").await;
            assert!(matches!(failed, Err(Error::Configuration(_))), "{failed:?}");
            assert_eq!((message.entered(), lab.balance("a").await), (0, 0));
        } else {
            let sql = "CREATE TABLE late (account VARCHAR(64) REFERENCES accounts (id) DEFERRABLE INITIALLY DEFERRED)";
            raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
            let message = Message::new("one", 0);
            let refused = swallowing(&lab.store, &message, "INSERT INTO late VALUES ('nobody')").await;
            let Err(Error::Database(error)) = &refused else { panic!("{refused:?}") };
            assert_eq!((error.phase(), error.is_retryable()), (Phase::Commit, false), "{error}");
            assert_eq!((message.entered(), lab.claims().await, lab.balance("a").await), (1, 0, 0));
        }
    }
}

/// What only servers do.
mod on_servers {
    use super::*;

    macro_rules! on_servers {
        ($($tests:tt)*) => {
            idem_tests::on_every_database!(
                @module postgres [#[ignore = "needs PostgreSQL: ./scripts/test runs it"]] { given!(); } $($tests)*
            );
            idem_tests::on_every_database!(
                @module mysql [#[ignore = "needs MySQL or MariaDB: ./scripts/test runs it"]] { given!(); } $($tests)*
            );
        };
    }

    macro_rules! given {
        () => {
            fn key(part: &str) -> Result<Key, KeyError> {
                Key::scope("p06").part(part).finish()
            }

            async fn session(db: &mut Conn) -> i64 {
                let sql = match DIALECT {
                    Dialect::Postgres => "SELECT pg_backend_pid()::bigint",
                    _ => "SELECT CAST(connection_id() AS SIGNED)",
                };
                sqlx::query_scalar(sql).fetch_one(&mut *db).await.unwrap()
            }

            /// Ends a session as an operator or a fail-over would, and waits until it is gone.
            async fn kill(lab: &Lab, session: i64) {
                let (kill, left) = match DIALECT {
                    Dialect::Postgres => (
                        format!("SELECT pg_terminate_backend({session})"),
                        format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {session}"),
                    ),
                    _ => (
                        format!("KILL {session}"),
                        format!("SELECT count(*) FROM information_schema.processlist WHERE id = {session}"),
                    ),
                };
                raw(&mut lab.pool.acquire().await.unwrap(), &kill).await.unwrap();
                while lab.number(&left).await > 0 {
                    tokio::task::yield_now().await;
                }
            }

            /// Kills all of a pool's connections while they lie idle in it.
            async fn kill_pool(lab: &Lab, pool: &Pool, size: u32) {
                let mut connections = Vec::new();
                let mut sessions = Vec::new();
                for _ in 0..size {
                    let mut connection = pool.acquire().await.unwrap();
                    sessions.push(session(&mut connection).await);
                    connections.push(connection);
                }
                // Back in the pool before the server lets go of them.
                drop(connections);
                while pool.num_idle() < size as usize {
                    tokio::task::yield_now().await;
                }
                for session in sessions {
                    kill(lab, session).await;
                }
                assert_eq!(pool.size(), size, "the pool noticed by itself");
            }

            /// Loses the unit's connection between the body and the commit, in the first run.
            #[idempotent(key = message.order_no, store = db, scope = "p06", retry = 3)]
            async fn cut_off(db: &mut Conn, lab: &Lab, message: &Message) -> Result<(), sqlx::Error> {
                credit(db, "a", 1).await?;
                if message.enter() {
                    let session = session(db).await;
                    kill(lab, session).await;
                }
                Ok(())
            }

            #[idempotent(key = message.order_no, store = db, scope = "p06")]
            async fn cut_off_once(db: &mut Conn, lab: &Lab, message: &Message) -> Result<(), sqlx::Error> {
                credit(db, "a", 1).await?;
                if message.enter() {
                    let session = session(db).await;
                    kill(lab, session).await;
                }
                Ok(())
            }
        };
    }

    on_servers! {
        async fn after_the_server_dropped_every_connection_the_next_claim_succeeds(lab: Lab) {
            let store = lab.other_store(Lab::builder().max_connections(4)).await;
            store.verify().await.unwrap();
            kill_pool(&lab, store.pool(), 4).await;
            assert!(store.once(key("one"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());

            // And so does each of many at once, duplicates among them.
            kill_pool(&lab, store.pool(), 4).await;
            let mut deliveries = Vec::new();
            for n in 0..8 {
                let store = store.clone();
                deliveries.push(tokio::spawn(async move {
                    store.once(key(&format!("order-{}", n / 2)), async |db| credit(db, "a", 1).await).await
                }));
            }
            let mut firsts = 0;
            for delivery in deliveries {
                firsts += usize::from(delivery.await.unwrap().unwrap().is_first());
            }
            assert_eq!(firsts, 4);
            assert_eq!((lab.claims().await, lab.balance("a").await), (5, 5));
        }

        async fn a_new_store_over_a_pool_of_dead_connections_works_at_once(lab: Lab) {
            let pool = PoolOptions::new().max_connections(4).test_before_acquire(false);
            let pool = pool.connect(&lab.url).await.unwrap();
            kill_pool(&lab, &pool, 4).await;
            let store = Db::new(pool);
            assert!(store.once(key("one"), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
            assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
        }

        async fn a_unit_cut_off_before_its_commit_is_not_repeated_unasked(lab: Lab) {
            let message = Message::new("one", 1);
            let lost = cut_off_once(&lab.store, &lab, &message).await;
            let Err(error @ Error::Database(database)) = &lost else { panic!("{lost:?}") };
            assert_eq!(database.phase(), Phase::Commit);
            assert!(error.is_retryable(), "{error}");
            assert_eq!((message.entered(), lab.claims().await, lab.balance("a").await), (1, 0, 0));
            assert!(cut_off_once(&lab.store, &lab, &message).await.unwrap().is_first());
            assert_eq!((message.entered(), lab.claims().await, lab.balance("a").await), (2, 1, 1));
        }

        async fn with_retry_a_unit_cut_off_before_its_commit_runs_again(lab: Lab) {
            let message = Message::new("one", 2);
            assert!(cut_off(&lab.store, &lab, &message).await.unwrap().is_first());
            assert_eq!(message.entered(), 3);
            assert_eq!(message.order_no.written.load(Ordering::SeqCst), 1, "the key was computed again");
            assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
        }
    }
}

/// Only PostgreSQL refuses a COMMIT for the order of reads and writes.
mod postgres_serializable {
    use super::*;
    use idem_tests::postgres::*;

    /// Reads one account and writes the other, while somebody else does the reverse and is first to commit.
    #[idempotent(key = message.order_no, store = db, scope = "p06", retry = 1)]
    async fn skewed(db: &mut Conn, lab: &Lab, message: &Message) -> Result<(), sqlx::Error> {
        let a: i64 = sqlx::query_scalar("SELECT balance FROM accounts WHERE id = 'a'").fetch_one(&mut *db).await?;
        credit(db, "b", a + 1).await?;
        if message.enter() {
            let mut other = Conn::connect(&lab.url).await?;
            raw(&mut other, "BEGIN ISOLATION LEVEL SERIALIZABLE").await?;
            let b: i64 =
                sqlx::query_scalar("SELECT balance FROM accounts WHERE id = 'b'").fetch_one(&mut other).await?;
            credit(&mut other, "a", b + 1).await?;
            raw(&mut other, "COMMIT").await?;
        }
        Ok(())
    }

    #[test]
    #[ignore = "needs PostgreSQL: ./scripts/test runs it"]
    fn a_commit_that_could_not_be_serialized_is_repeated_where_asked() {
        idem_tests::run(async {
            let lab = Lab::new().await;
            let store = lab.other_store(Lab::builder().isolation(Isolation::Serializable)).await;
            let message = Message::new("once", 1);
            assert!(skewed(&store, &lab, &message).await.unwrap().is_first());
            // The other was first, so the second run saw its 1.
            assert_eq!((message.entered(), lab.balance("a").await, lab.balance("b").await), (2, 1, 2));

            let message = Message::new("twice", 2);
            let refused = skewed(&store, &lab, &message).await;
            let Err(error @ Error::Database(database)) = &refused else { panic!("{refused:?}") };
            assert_eq!(database.phase(), Phase::Commit);
            assert!(error.is_retryable(), "{error}");
            assert_eq!((message.entered(), lab.claims().await, lab.balance("b").await), (2, 1, 2));
            lab.close().await;
        });
    }
}

/// Only SQLite has a database that is one file, shared by whoever opens it.
mod sqlite_pools {
    use super::*;
    use idem_tests::sqlite::*;

    #[test]
    fn a_pool_of_several_writers_meets_no_locked_database() {
        idem_tests::run(async {
            let lab = Lab::new().await;
            // As an application may have it: four connections, each of which could write.
            let pool = PoolOptions::new().max_connections(4).connect(&lab.url).await.unwrap();
            let store = Lab::builder().lock_wait(Duration::from_secs(20)).pool(pool.clone()).unwrap();
            // A reader that began before the writers, and wants to write only in the end, is told so at once by SQLite.
            let mut reader = pool.acquire().await.unwrap();
            raw(&mut reader, "BEGIN; SELECT * FROM accounts").await.unwrap();
            let mut writers = Vec::new();
            for n in 0..8 {
                let store = store.clone();
                writers.push(tokio::spawn(async move {
                    let key = Key::scope("p06").part(&n).finish();
                    store
                        .once(key, async |db| {
                            let a: i64 = sqlx::query_scalar("SELECT balance FROM accounts WHERE id = 'a'")
                                .fetch_one(&mut *db)
                                .await?;
                            tokio::time::sleep(Duration::from_millis(50)).await;
                            raw(db, &format!("UPDATE accounts SET balance = {} WHERE id = 'a'", a + 1)).await
                        })
                        .await
                }));
            }
            for writer in writers {
                assert!(writer.await.unwrap().unwrap().is_first());
            }
            assert_eq!((lab.claims().await, lab.balance("a").await), (8, 8));
            assert!(raw(&mut reader, "UPDATE accounts SET balance = 0").await.is_err(), "this is what the units avoid");
            reader.execute("ROLLBACK").await.unwrap();
            drop(reader);
            pool.close().await;
            lab.close().await;
        });
    }
}
