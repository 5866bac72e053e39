//! Promise 7: who waits too long for a lock is told "busy, retry later": no duplicate, no poison, and no trace of it is
//! left, neither in the record table nor on its connection. Cases C25, C28 and C29.

use idem_runtime::{Advice, Busy, Claim, ClaimError, Error, Key, Outcome, Phase, idempotent};
use idem_tests::logs::Listener;
use sqlx::{Connection as _, Executor as _};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

idem_tests::on_every_database! {
    given {
        /// `retry` is for bodies that fail; a delivery that is in the way of another goes back to the broker.
        #[idempotent(key = order_no, store = db, scope = "p07.pay", retry = 3)]
        async fn pay(db: &mut Conn, order_no: &str, entered: &AtomicUsize) -> Result<u32, sqlx::Error> {
            entered.fetch_add(1, Ordering::SeqCst);
            credit(db, "a", 1).await?;
            Ok(17)
        }

        async fn hold(lab: &Lab, order_no: &str) -> idem_runtime::Unit<Conn> {
            let key = Key::scope("p07.pay").part(order_no).finish();
            let Claim::First(mut unit) = lab.store.claim(key).await.unwrap() else { panic!("not first") };
            credit(unit.connection(), "b", 1).await.unwrap();
            unit
        }

        fn impatient() -> idem_runtime::StoreBuilder<Conn> {
            Lab::builder().lock_wait(SECOND).max_connections(1)
        }

        /// How long the session waits for a lock, in milliseconds, as the database says.
        async fn lock_wait(db: &mut Conn) -> i64 {
            let sql = match DIALECT {
                Dialect::Sqlite => "SELECT timeout FROM pragma_busy_timeout",
                Dialect::Postgres => "SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'",
                Dialect::MySql => "SELECT CAST(1000 * @@SESSION.innodb_lock_wait_timeout AS SIGNED)",
            };
            sqlx::query_scalar(sql).fetch_one(&mut *db).await.unwrap()
        }

        /// The lock wait that the next borrower of the only connection finds, which must be the same connection.
        async fn left_on(store: &Db) -> i64 {
            let mut next = store.pool().acquire().await.unwrap();
            let sql = match DIALECT {
                // Left by `own_pool`; a new connection would have its default.
                Dialect::Sqlite => "PRAGMA cache_spill",
                Dialect::Postgres => "SELECT current_setting('idem_test.mark')::bigint",
                Dialect::MySql => "SELECT CAST(@idem_test_mark AS SIGNED)",
            };
            let mark: Option<i64> = sqlx::query_scalar(sql).fetch_one(&mut *next).await.unwrap();
            assert_eq!(mark, Some(4321), "it is another connection");
            lock_wait(&mut next).await
        }

        /// A pool of one connection that is shared with code which waits 33 seconds.
        async fn own_pool(lab: &Lab) -> Pool {
            let session = match DIALECT {
                Dialect::Sqlite => "PRAGMA busy_timeout = 33000; PRAGMA cache_spill = 4321",
                Dialect::Postgres => "SET lock_timeout = '33s'; SET idem_test.mark = '4321'",
                Dialect::MySql => "SET SESSION innodb_lock_wait_timeout = 33, @idem_test_mark = 4321",
            };
            let pool = PoolOptions::new().max_connections(1).connect(&lab.url).await.unwrap();
            raw(&mut pool.acquire().await.unwrap(), session).await.unwrap();
            pool
        }
    }

    async fn who_waits_too_long_is_busy_and_runs_later(lab: Lab) {
        let store = lab.other_store(impatient()).await;
        for (order_no, commits) in [("committed", true), ("rolled-back", false), ("dropped", false)] {
            let entered = AtomicUsize::new(0);
            let before = lab.claims().await;
            let paid = lab.balance("a").await;
            let holder = hold(&lab, order_no).await;
            let listener = Listener::start();
            let busy = pay(&store, order_no, &entered).await.unwrap_err();
            assert!(matches!(busy, Error::Busy(Busy::Claimed(SECOND))), "{busy:?}");
            assert!(busy.is_retryable());
            assert_eq!(busy.advice(), Advice::RetryLater);
            assert_eq!(busy.label(), "busy");
            assert_eq!(entered.load(Ordering::SeqCst), 0, "a body was entered");
            let heard = listener.outcomes();
            let [event] = &heard[..] else { panic!("not one event: {heard:#?}") };
            assert_eq!((event.field("idem.outcome"), event.field("idem.key")), (Some("busy"), Some(order_no)));
            assert!(event.level >= Level::INFO, "{event:?}");
            drop(listener);
            assert_eq!(lab.claims().await, before, "the loser left a claim");

            match order_no {
                "committed" => assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first()),
                "dropped" => drop(holder),
                _ => assert!(matches!(holder.roll_back::<(), (), _>("declined").await, Err(Error::Body("declined")))),
            }
            // Busy was no verdict: now the delivery is what the holder's end makes it.
            let later = pay(&store, order_no, &entered).await.unwrap();
            match later {
                Outcome::First(17) => assert!(!commits),
                Outcome::Duplicate(_) => assert!(commits),
                other => panic!("{other:?}"),
            }
            assert_eq!(lab.claims().await, before + 1);
            assert_eq!(lab.balance("a").await, paid + i64::from(!commits));
        }
        assert_eq!(lab.balance("b").await, 1);
    }

    async fn a_wait_that_ends_in_time_is_not_busy(lab: Lab) {
        for (order_no, commits) in [("committed", true), ("rolled-back", false)] {
            let entered = AtomicUsize::new(0);
            let paid = lab.balance("a").await;
            let holder = hold(&lab, order_no).await;
            let waiting = async { pay(&lab.store, order_no, &entered).await.unwrap() };
            let ending = async {
                lab.wait_until_blocked(1).await;
                if commits {
                    assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
                } else {
                    assert!(holder.roll_back::<(), (), _>("declined").await.is_err());
                }
            };
            let (outcome, ()) = tokio::join!(waiting, ending);
            assert_eq!(outcome.is_duplicate(), commits);
            assert_eq!(lab.balance("a").await, paid + i64::from(!commits));
        }
        assert_eq!((lab.claims().await, lab.balance("b").await), (2, 1));
    }

    async fn after_busy_the_connection_is_clean(lab: Lab) {
        let store = Lab::builder().lock_wait(SECOND).pool(own_pool(&lab).await).unwrap();
        // SQLite's one write lock is held by the holder; its connection waits no longer than the pool's own setting.
        if DIALECT == Dialect::Sqlite {
            store.pool().execute("PRAGMA busy_timeout = 100").await.unwrap();
        }
        let before = left_on(&store).await;
        let holder = hold(&lab, "one").await;
        for _ in 0..3 {
            let busy = pay(&store, "one", &AtomicUsize::new(0)).await;
            assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
            // Cleaned and kept.
            assert_eq!(left_on(&store).await, before);
        }
        assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        let mut next = store.pool().acquire().await.unwrap();
        raw(&mut next, "INSERT INTO accounts VALUES ('next', 7)").await.unwrap();
        let mut own = next.begin().await.unwrap();
        raw(&mut own, "INSERT INTO accounts VALUES ('own', 8)").await.unwrap();
        own.commit().await.unwrap();
        assert_eq!((lab.balance("next").await, lab.balance("own").await), (7, 8));
    }

    async fn the_lock_wait_is_the_units_alone(lab: Lab) {
        let store = Lab::builder().lock_wait(Duration::from_millis(2500)).pool(own_pool(&lab).await).unwrap();
        // MySQL knows whole seconds. On SQLite a pool's own setting stays; the store waits for its turn by itself.
        let inside = match DIALECT {
            Dialect::Sqlite => 33_000,
            Dialect::Postgres => 2500,
            Dialect::MySql => 3000,
        };
        let key = |part: &str| Key::scope("p07.wait").part(part).finish();
        let first = store.once(key("one"), async |db| {
            assert_eq!(lock_wait(db).await, inside);
            Ok::<_, sqlx::Error>(())
        }).await;
        assert!(first.unwrap().is_first());
        assert_eq!(left_on(&store).await, 33_000, "after first");
        let duplicate = store.once(key("one"), async |_| Ok::<_, sqlx::Error>(())).await;
        assert!(duplicate.unwrap().is_duplicate());
        assert_eq!(left_on(&store).await, 33_000, "after a duplicate");
        let failed = store.once(key("two"), async |db| {
            assert_eq!(lock_wait(db).await, inside);
            Err::<(), _>("no")
        }).await;
        assert!(matches!(failed, Err(Error::Body("no"))));
        assert_eq!(left_on(&store).await, 33_000, "after a failed body");
    }

    async fn the_lock_wait_that_is_set_is_the_one_the_database_uses(lab: Lab) {
        for (set, postgres, mysql) in
            [(0, 1, 1000), (1, 1, 1000), (1000, 1000, 1000), (1001, 1001, 2000), (60_000, 60_000, 60_000)]
        {
            let expected = match DIALECT {
                Dialect::Sqlite => set,
                Dialect::Postgres => postgres,
                Dialect::MySql => mysql,
            };
            let wait = Duration::from_millis(u64::try_from(set).unwrap());
            let store = lab.other_store(Lab::builder().lock_wait(wait).max_connections(1)).await;
            let part = set.to_string();
            let done = store.once(Key::scope("p07.set").part(&part).finish(), async |db| {
                assert_eq!(lock_wait(db).await, expected, "set to {set} ms");
                Ok::<_, sqlx::Error>(())
            }).await;
            assert!(done.unwrap().is_first());
        }
    }

    async fn a_lock_that_the_body_waits_for_in_vain_is_the_bodys_error(lab: Lab) {
        // On SQLite nobody can be in the way of a body: it has the one write lock.
        if DIALECT == Dialect::Sqlite {
            let mut other = Conn::connect(&lab.url).await.unwrap();
            raw(&mut other, "PRAGMA busy_timeout = 0").await.unwrap();
            let done = lab.store.once(Key::scope("p07").part("one").finish(), async |db| {
                assert!(credit(&mut other, "a", 10).await.is_err());
                credit(db, "a", 1).await
            }).await;
            assert!(done.unwrap().is_first());
            assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
        } else {
            let mut other = Conn::connect(&lab.url).await.unwrap();
            raw(&mut other, "BEGIN").await.unwrap();
            credit(&mut other, "a", 10).await.unwrap();
            let store = lab.other_store(impatient()).await;
            let entered = AtomicUsize::new(0);
            let key = || Key::scope("p07").part("one").finish();
            let stuck = store.once(key(), async |db| {
                entered.fetch_add(1, Ordering::SeqCst);
                credit(db, "a", 1).await
            }).await;
            assert!(matches!(stuck, Err(Error::Body(sqlx::Error::Database(_)))), "{stuck:?}");
            assert_eq!(entered.load(Ordering::SeqCst), 1, "a body that had started was repeated");
            assert_eq!(lab.claims().await, 0);
            raw(&mut other, "COMMIT").await.unwrap();
            assert!(store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
            assert_eq!((lab.claims().await, lab.balance("a").await), (1, 11));
        }
    }

    async fn a_full_pool_is_busy_and_says_so(lab: Lab) {
        let store = lab.other_store(impatient().acquire_timeout(Duration::from_millis(100))).await;
        store.verify().await.unwrap();
        let borrowed = store.pool().acquire().await.unwrap();
        let entered = AtomicUsize::new(0);
        let busy = pay(&store, "one", &entered).await.unwrap_err();
        assert!(matches!(busy, Error::Busy(Busy::NoConnection(_))), "{busy:?}");
        assert_eq!((busy.is_retryable(), busy.advice()), (true, Advice::RetryLater));
        drop(borrowed);
        assert!(pay(&store, "one", &entered).await.unwrap().is_first());
        assert_eq!((lab.claims().await, lab.balance("a").await, entered.into_inner()), (1, 1, 1));
    }
}

/// Only SQLite can refuse a COMMIT because of readers, and only without a write-ahead log.
mod sqlite_rollback_journal {
    use super::*;
    use idem_runtime::SqliteStore;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

    #[test]
    fn a_commit_that_readers_hold_up_is_retryable_and_not_first() {
        idem_tests::run(async {
            let directory = tempfile::tempdir().unwrap();
            let options = SqliteConnectOptions::new()
                .filename(directory.path().join("shop.db"))
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Delete)
                .busy_timeout(Duration::from_millis(100));
            let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
            let store = SqliteStore::new(pool.clone());
            store.migrate().await.unwrap();
            pool.execute("CREATE TABLE done (n INT)").await.unwrap();
            let mut reader = pool.acquire().await.unwrap();
            reader.execute(sqlx::raw_sql("BEGIN; SELECT * FROM done")).await.unwrap();
            let key = || Key::scope("p07").part("one").finish();
            let claim = store.once(key(), async |db| db.execute("INSERT INTO done VALUES (1)").await.map(|_| ())).await;
            let Err(error @ Error::Database(_)) = &claim else { panic!("{claim:?}") };
            let Error::Database(database) = error else { unreachable!() };
            assert_eq!(database.phase(), Phase::Commit);
            assert!(error.is_retryable(), "{error}");
            reader.execute("COMMIT").await.unwrap();
            let claims: i64 =
                sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(&mut *reader).await.unwrap();
            assert_eq!(claims, 0);
            let again = store.once(key(), async |db| db.execute("INSERT INTO done VALUES (1)").await.map(|_| ())).await;
            assert!(again.unwrap().is_first());
            let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM done").fetch_one(&mut *reader).await.unwrap();
            assert_eq!(rows, 1);
        });
    }

    #[test]
    fn another_process_that_writes_makes_it_busy() {
        idem_tests::run(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("shop.db");
            let url = format!("sqlite://{}?mode=rwc", path.display());
            let store = SqliteStore::builder().lock_wait(Duration::from_millis(100)).connect(&url).await.unwrap();
            store.migrate().await.unwrap();
            let mut other = sqlx::SqliteConnection::connect(&url).await.unwrap();
            other.execute("BEGIN IMMEDIATE").await.unwrap();
            let key = || Key::scope("p07").part("one").finish();
            let busy = store.claim(key()).await;
            assert!(matches!(busy, Err(ClaimError::Busy(Busy::Claimed(_)))), "{busy:?}");
            other.execute("ROLLBACK").await.unwrap();
            assert!(matches!(store.claim(key()).await, Ok(Claim::First(_))));
        });
    }
}
