//! The purge: what is past goes, in whole batches, beside live traffic; what is not past stays. Cases C34, C35, C36.

use idem_runtime::{Archived, ConfigurationError, Key, KeyError, Outcome, Purge, PurgeError};
use idem_tests::{
    cancel::{
        Moment::{self, Answered, Asked},
        drop_at,
    },
    proxy::Proxy,
    rows,
};
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

const HOUR: i64 = 3_600_000;

fn key(fact: &str) -> Result<Key, KeyError> {
    Key::scope("purge").part(fact).finish()
}

/// No rest, and batches of so many rows.
fn quick<'a>(batch: u32) -> Purge<'a> {
    Purge::new().batch(batch).pause(Duration::ZERO)
}

idem_tests::on_every_database! {
    given {
        async fn run_sql(lab: &Lab, sql: &str) {
            raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
        }

        async fn fill(lab: &Lab, scope: &str, rows: u64, kept_for: i64) {
            for from in (0..rows).step_by(500) {
                run_sql(lab, &rows::records(DIALECT, scope, from..rows.min(from + 500), kept_for)).await;
            }
        }

        async fn records_of(lab: &Lab, scope: &str) -> i64 {
            lab.number(&format!("SELECT count(*) FROM idem_records WHERE scope = '{scope}'")).await
        }

        /// An instant as milliseconds since the epoch.
        fn millis(instant: &str) -> String {
            match DIALECT {
                Dialect::Sqlite => format!("SELECT CAST(round((julianday({instant}) - 2440587.5) * 86400000) AS INTEGER)"),
                Dialect::Postgres => format!("SELECT (extract(epoch FROM {instant}) * 1000)::bigint"),
                Dialect::MySql => format!("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {instant}) DIV 1000"),
            }
        }
    }

    async fn what_is_past_goes_and_nothing_younger_whatever_the_batch(lab: Lab) {
        for batch in [0, 1, 7, 20, u32::MAX] {
            fill(&lab, "old", 20, -1).await;
            fill(&lab, "live", 10, HOUR).await;
            let purged = lab.store.purge(quick(batch)).await.unwrap();
            assert_eq!((purged.records, purged.rows()), (20, 20), "{batch}");
            assert_eq!((records_of(&lab, "old").await, records_of(&lab, "live").await), (0, 10), "{batch}");
            assert_eq!(lab.store.purge(quick(batch)).await.unwrap().rows(), 0);
            run_sql(&lab, "DELETE FROM idem_records").await;
        }
        // A grace keeps what is past for longer.
        fill(&lab, "old", 5, -2 * HOUR).await;
        fill(&lab, "young", 5, -HOUR / 2).await;
        for (hours, left) in [(u64::MAX / 3600, 10), (3, 10), (1, 5), (0, 0)] {
            lab.store.purge(quick(3).grace(Duration::from_secs(3600 * hours))).await.unwrap();
            assert_eq!(lab.claims().await, left, "{hours}");
        }
    }

    async fn a_row_stays_until_its_time_is_past(lab: Lab) {
        fill(&lab, "soon", 1, 400).await;
        let keep_until = lab.number(&format!("{} FROM idem_records", millis("keep_until"))).await;
        let now = millis(&rows::instant(DIALECT, 0));
        let mut early = 0;
        loop {
            let before = lab.number(&now).await;
            let purged = lab.store.purge(quick(10)).await.unwrap().records;
            let after = lab.number(&now).await;
            if purged == 1 {
                assert!(after >= keep_until, "purged {} ms too early", keep_until - after);
                break;
            }
            // Milliseconds are rounded one way here and the other way there.
            assert!(before <= keep_until + 1, "it was past for {} ms and stayed", before - keep_until);
            early += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(early > 3, "only {early} looks before its time");
        assert_eq!(lab.claims().await, 0);
    }

    async fn batches_have_their_size_and_a_run_its_limit(lab: Lab) {
        fill(&lab, "old", 25, -1).await;
        let mut told = Vec::new();
        let purge = quick(10).at_most(20).progress(|progress| told.push((progress.rows, progress.deleted, progress.batches)));
        let purged = lab.store.purge(purge).await.unwrap();
        assert_eq!((purged.records, purged.batches), (20, 2));
        assert!(purged.longest_batch > Duration::ZERO);
        assert_eq!(told, [(10, 10, 1), (10, 20, 2)]);
        assert_eq!(lab.claims().await, 5);
        assert_eq!(lab.store.purge(quick(10).at_most(0)).await.unwrap().rows(), 0);
        assert_eq!(lab.claims().await, 5);
        assert_eq!(lab.store.purge(quick(10).at_most(3)).await.unwrap().rows(), 3);
        assert_eq!(lab.store.purge(quick(10)).await.unwrap().rows(), 2);
    }

    async fn tokens_and_finished_leases_go_and_unfinished_work_stays(lab: Lab) {
        fill(&lab, "old", 3, -1).await;
        for (key, kept_for) in [("old-1", -1), ("old-2", -HOUR), ("live", HOUR)] {
            run_sql(&lab, &rows::token(DIALECT, key, kept_for)).await;
        }
        for (key, finished, kept_for) in
            [("done-1", true, -1), ("done-2", true, -1), ("young", true, HOUR), ("begun", false, -HOUR), ("begun-2", false, HOUR)]
        {
            run_sql(&lab, &rows::lease(DIALECT, key, finished, kept_for)).await;
        }
        let purged = lab.store.purge(quick(1)).await.unwrap();
        assert_eq!((purged.records, purged.tokens, purged.leases), (3, 2, 2));
        assert_eq!((lab.rows("idem_records_tokens").await, lab.rows("idem_records_leases").await), (1, 3));
        let unfinished = "SELECT count(*) FROM idem_records_leases WHERE done_at IS NULL";
        assert_eq!(lab.number(unfinished).await, 2);
        assert_eq!(lab.rows("idem_records_tokens WHERE action_key = 'live'").await, 1);
        // The limit is for all tables together.
        fill(&lab, "old", 3, -1).await;
        run_sql(&lab, &rows::token(DIALECT, "old-1", -1)).await;
        run_sql(&lab, &rows::lease(DIALECT, "done-1", true, -1)).await;
        let purged = lab.store.purge(quick(2).at_most(4)).await.unwrap();
        assert_eq!((purged.records, purged.tokens, purged.leases), (3, 1, 0));
    }

    async fn tables_that_were_never_made_are_passed_over(lab: Lab) {
        fill(&lab, "old", 5, -1).await;
        run_sql(&lab, "DROP TABLE idem_records_tokens").await;
        run_sql(&lab, &rows::lease(DIALECT, "done-1", true, -1)).await;
        let purged = lab.store.purge(quick(10)).await.unwrap();
        assert_eq!((purged.records, purged.tokens, purged.leases), (5, 0, 1));
        let store = lab.other_store(Lab::builder()).await;
        run_sql(&lab, "DROP TABLE idem_records_leases").await;
        assert_eq!(store.purge(quick(10)).await.unwrap().rows(), 0);
        assert_eq!(lab.store.purge(quick(10)).await.unwrap().rows(), 0, "with a store that knows the table");
        run_sql(&lab, "DROP TABLE idem_records").await;
        for store in [&store, &lab.store] {
            let error = store.purge(quick(10)).await.unwrap_err();
            assert!(matches!(&error, PurgeError::Configuration(ConfigurationError::NoTable { .. })), "{error:?}");
            assert!(!error.is_retryable());
        }
        run_sql(&lab, "CREATE TABLE idem_records (id INT)").await;
        store.pool().close().await;
    }

    /// C34: the purge changes when a late repeat passes, and nothing else.
    async fn a_late_record_refuses_until_it_is_purged_and_then_the_action_runs_once(lab: Lab) {
        let pay = || lab.store.once(key("late"), async |db| credit(db, "a", 1).await);
        assert!(pay().await.unwrap().is_first());
        assert_eq!(lab.store.purge(quick(10)).await.unwrap().rows(), 0);
        run_sql(&lab, &format!("UPDATE idem_records SET keep_until = {}", rows::instant(DIALECT, -60_000))).await;
        assert!(matches!(pay().await.unwrap(), Outcome::Duplicate(seen) if seen.late));
        assert_eq!(lab.store.purge(quick(10)).await.unwrap().records, 1);
        let (one, other) = tokio::join!(pay(), pay());
        let firsts = [one.unwrap(), other.unwrap()].iter().filter(|outcome| outcome.is_first()).count();
        assert_eq!((firsts, lab.balance("a").await), (1, 2));
        assert!(matches!(pay().await.unwrap(), Outcome::Duplicate(seen) if !seen.late));
        assert_eq!(lab.store.purge(quick(10)).await.unwrap().rows(), 0);
    }

    /// Sessions of a pool that is shared with other code may have their own ways.
    async fn a_session_of_another_kind_changes_nothing(lab: Lab) {
        let options = PoolOptions::new().max_connections(2).after_connect(|connection, _| Box::pin(async move {
            match DIALECT {
                Dialect::Sqlite => Ok(()),
                Dialect::Postgres => raw(
                    connection,
                    "SET TIME ZONE 'Asia/Shanghai'; SET default_transaction_isolation = 'serializable'",
                )
                .await,
                Dialect::MySql => raw(
                    connection,
                    "SET time_zone = '+08:00', autocommit = 0; SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                )
                .await,
            }
        }));
        let store = Db::new(options.connect(&lab.url).await.unwrap());
        for archived in [false, true] {
            fill(&lab, "old", 6, -1).await;
            fill(&lab, "live", 6, HOUR).await;
            let purge = if archived { quick(4).archive(async |_| Ok(())) } else { quick(4) };
            assert_eq!(store.purge(purge).await.unwrap().records, 6);
            assert_eq!((records_of(&lab, "old").await, records_of(&lab, "live").await), (0, 6));
            run_sql(&lab, "DELETE FROM idem_records").await;
        }
        store.pool().close().await;
    }

    /// What other code left open on a connection is not committed by the purge, and does not take its rows back.
    async fn a_transaction_that_other_code_left_open_is_not_joined(lab: Lab) {
        for archived in [false, true] {
            fill(&lab, "old", 3, -1).await;
            let store = lab.other_store(Lab::builder().max_connections(1)).await;
            let mut connection = store.pool().acquire().await.unwrap();
            raw(&mut connection, "BEGIN; UPDATE accounts SET balance = balance + 100 WHERE id = 'a'").await.unwrap();
            drop(connection);
            let purge = if archived { quick(4).archive(async |_| Ok(())) } else { quick(4) };
            assert_eq!(store.purge(purge).await.unwrap().records, 3);
            store.pool().close().await;
            assert_eq!((lab.claims().await, lab.balance("a").await), (0, 0));
        }
    }

    async fn several_purges_share_the_work(lab: Lab) {
        fill(&lab, "old", 2000, -1).await;
        fill(&lab, "live", 10, HOUR).await;
        for archived in [false, true] {
            let exported = Arc::new(Mutex::new(BTreeSet::new()));
            let mut runners = Vec::new();
            for _ in 0..3 {
                let store = lab.other_store(Lab::builder().max_connections(1)).await;
                let exported = Arc::clone(&exported);
                runners.push(tokio::spawn(async move {
                    let purge = if archived {
                        quick(50).archive(move |batch| {
                            exported.lock().unwrap().extend(batch.into_iter().map(|row| row.key));
                            std::future::ready(Ok(()))
                        })
                    } else {
                        quick(50)
                    };
                    let purged = store.purge(purge).await;
                    store.pool().close().await;
                    purged
                }));
            }
            let mut all = 0;
            for runner in runners {
                all += runner.await.unwrap().unwrap().records;
            }
            assert_eq!((all, lab.claims().await), (2000, 10), "archived: {archived}");
            assert_eq!(exported.lock().unwrap().len(), if archived { 2000 } else { 0 });
            fill(&lab, "old", 2000, -1).await;
        }
    }

    /// C36: two purges, and deliveries meanwhile, none of which may fail.
    async fn deliveries_go_on_while_two_purges_run(lab: Lab) {
        fill(&lab, "old", 5000, -1).await;
        let runs = Arc::new(AtomicU64::new(0));
        let mut purges = Vec::new();
        for _ in 0..2 {
            let (store, runs) = (lab.other_store(Lab::builder().max_connections(2)).await, Arc::clone(&runs));
            purges.push(tokio::spawn(async move {
                let purge = Purge::new().batch(100).pause(Duration::from_millis(1)).progress(|_| {
                    runs.fetch_add(1, Ordering::SeqCst);
                });
                let purged = store.purge(purge).await;
                store.pool().close().await;
                purged
            }));
        }
        let mut workers = Vec::new();
        for worker in 0..4 {
            let store = lab.store.clone();
            workers.push(tokio::spawn(async move {
                for number in 0..125 {
                    let key = key(&format!("{worker}-{number}"));
                    let paid: Outcome<()> = store.once(key, async |db| credit(db, "a", 1).await).await.unwrap();
                    assert!(paid.is_first());
                }
            }));
        }
        for worker in workers {
            worker.await.unwrap();
        }
        let mut purged = 0;
        for purge in purges {
            purged += purge.await.unwrap().unwrap().records;
        }
        assert!(runs.load(Ordering::SeqCst) >= 50, "the batches were larger than they may be");
        assert_eq!((purged, lab.claims().await, lab.balance("a").await), (5000, 500, 500));
        lab.wait_until_calm().await;
    }

    async fn the_archive_gets_each_row_before_it_is_deleted(lab: Lab) {
        fill(&lab, "old", 25, -1).await;
        fill(&lab, "live", 5, HOUR).await;
        run_sql(&lab, &rows::token(DIALECT, "old", -1)).await;
        run_sql(&lab, &rows::lease(DIALECT, "done", true, -1)).await;
        run_sql(&lab, &rows::lease(DIALECT, "begun", false, -1)).await;
        let exported: Mutex<Vec<Archived>> = Mutex::default();
        let purge = Purge::new().batch(10).pause(Duration::ZERO).archive(|batch| {
            let (lab, exported) = (&lab, &exported);
            async move {
                let there = lab.claims().await + lab.rows("idem_records_leases").await;
                let before = exported.lock().unwrap().len();
                assert_eq!(there, 32 - i64::try_from(before)?, "deleted before it was exported");
                exported.lock().unwrap().extend(batch);
                Ok(())
            }
        });
        let purged = lab.store.purge(purge).await.unwrap();
        assert_eq!((purged.records, purged.tokens, purged.leases, purged.batches), (25, 1, 1, 5));
        let exported = exported.into_inner().unwrap();
        let keys: BTreeSet<&str> = exported.iter().map(|row| &*row.key).collect();
        assert_eq!((exported.len(), keys.len()), (26, 26));
        let row = exported.iter().find(|row| row.key == "00000007").unwrap();
        assert_eq!((&*row.scope, row.delivery_id.as_deref(), row.leased), ("old", Some("d-7"), false));
        assert_eq!((row.message.as_deref(), row.result.as_deref()), (Some("message 7"), Some(&b"ok"[..])));
        let kept = row.keep_until.duration_since(row.claimed_at).unwrap();
        assert!(kept.as_millis().abs_diff(999_999) <= 2_000, "{kept:?}");
        assert!(row.keep_until < SystemTime::now() + Duration::from_mins(1));
        let lease = exported.last().unwrap();
        assert_eq!((&*lease.scope, &*lease.key, lease.leased), ("sms", "done", true));
        assert_eq!((lab.claims().await, lab.rows("idem_records_leases").await), (5, 1));
    }

    /// C36, for an archive that takes long: what is locked meanwhile is the batch, and no gap beside it.
    async fn deliveries_go_on_while_the_archive_has_a_batch(lab: Lab) {
        fill(&lab, "old", 30, -1).await;
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(1))).await;
        let paid = AtomicU64::new(0);
        let purge = quick(10).archive(|_| {
            let (store, paid) = (&store, &paid);
            async move {
                for scope in ["before", "purge", "zz.after"] {
                    let key = Key::scope(scope).part(&paid.fetch_add(1, Ordering::SeqCst).to_string()).finish();
                    assert!(store.once(key, async |db| credit(db, "a", 1).await).await?.is_first());
                }
                Ok(())
            }
        });
        assert_eq!(store.purge(purge).await.unwrap().records, 30);
        assert_eq!((lab.balance("a").await, lab.claims().await), (9, 9));
        store.pool().close().await;
    }

    async fn an_archive_that_fails_keeps_its_rows(lab: Lab) {
        fill(&lab, "old", 25, -1).await;
        let mut batches = 0;
        let purge = quick(10).archive(move |_| {
            batches += 1;
            std::future::ready(if batches < 2 { Ok(()) } else { Err("the disk is full".into()) })
        });
        let error = lab.store.purge(purge).await.unwrap_err();
        assert!(matches!(&error, PurgeError::Archive(error) if error.to_string() == "the disk is full"), "{error:?}");
        lab.wait_until_calm().await;
        assert_eq!(lab.claims().await, 15);
        // What was kept is neither locked nor lost to the next run.
        let rest = lab.store.purge(quick(10).archive(async |_| Ok(()))).await.unwrap();
        assert_eq!((rest.records, lab.claims().await), (15, 0));
    }

    /// A row that is locked is no reason to fail where it can be passed over, and else the run says so in time.
    async fn what_others_have_locked_is_left_for_later(lab: Lab) {
        fill(&lab, "old", 10, -1).await;
        let mut other = lab.pool.acquire().await.unwrap();
        let lock = "BEGIN; UPDATE idem_records SET message = NULL WHERE action_key = '00000003'";
        raw(&mut other, lock).await.unwrap();
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_millis(50))).await;
        match (DIALECT, store.purge(quick(4)).await) {
            (Dialect::Postgres, Ok(purged)) => assert_eq!(purged.records, 9),
            (Dialect::Sqlite | Dialect::MySql, Err(error @ PurgeError::Busy { .. })) => assert!(error.is_retryable()),
            (_, other) => panic!("{other:?}"),
        }
        raw(&mut other, "ROLLBACK").await.unwrap();
        drop(other);
        store.purge(quick(4)).await.unwrap();
        assert_eq!(lab.claims().await, 0);
        store.pool().close().await;
    }

    /// Dropped at each of its awaits, a purge has deleted whole batches, and nothing that the archive has not got.
    async fn a_purge_that_is_dropped_anywhere_leaves_whole_batches(lab: Lab) {
        const ROWS: i64 = 80;
        let (_proxy, url) = match lab.url.split_once('@') {
            None => (None, lab.url.clone()),
            Some((_, rest)) => {
                let address: SocketAddr = rest.split('/').next().unwrap().parse().unwrap();
                let proxy = Proxy::start(address, Duration::from_millis(1)).await.unwrap();
                let url = proxy.in_url(&lab.url);
                (Some(proxy), url)
            }
        };
        let sweeps: [(Moment, bool); 4] = [(Asked, false), (Asked, true), (Answered, false), (Answered, true)];
        for (moment, archived) in sweeps {
            let mut cut_short = 0;
            let store = Lab::builder().max_connections(1).connect(&url).await.unwrap();
            for wait in 1.. {
                assert!(wait < 500);
                run_sql(&lab, "DELETE FROM idem_records").await;
                fill(&lab, "old", 80, -1).await;
                fill(&lab, "live", 3, HOUR).await;
                let exported = AtomicU64::new(0);
                let purge = if archived {
                    Purge::new().batch(40).pause(Duration::ZERO).archive(|batch| {
                        let exported = &exported;
                        async move {
                            tokio::task::yield_now().await;
                            exported.fetch_add(batch.len() as u64, Ordering::SeqCst);
                            Ok(())
                        }
                    })
                } else {
                    quick(40)
                };
                let done = drop_at(store.purge(purge), wait, moment).await;
                lab.wait_until_calm().await;
                let left = records_of(&lab, "old").await;
                assert_eq!(left % 40, 0, "{moment:?} {archived} {wait}");
                let exported = i64::try_from(exported.into_inner()).unwrap();
                assert!(!archived || ROWS - left <= exported, "{moment:?} {wait}: {left} left, {exported} exported");
                cut_short += usize::from(left > 0 && left < ROWS);
                // The pool of one connection still works, and the next purge goes on.
                store.purge(quick(40)).await.unwrap();
                assert_eq!(lab.claims().await, 3, "{moment:?} {archived} {wait}");
                if done.is_some() {
                    assert_eq!(left, 0);
                    break;
                }
            }
            store.pool().close().await;
            assert!(cut_short > 0 || DIALECT == Dialect::Sqlite, "{moment:?} {archived}: no drop came in between");
        }
    }

    /// The index of the migration serves a batch: most rows are live, and few are read.
    async fn a_batch_does_not_read_the_live_rows(lab: Lab) {
        fill(&lab, "live", 5000, HOUR).await;
        fill(&lab, "old", 50, -1).await;
        let (analyze, explain) = match DIALECT {
            Dialect::Sqlite => (
                "ANALYZE",
                "EXPLAIN QUERY PLAN DELETE FROM idem_records WHERE (scope, action_key) IN (SELECT scope, action_key \
                 FROM idem_records WHERE keep_until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-0.000 seconds') \
                 ORDER BY keep_until LIMIT 2000)",
            ),
            Dialect::Postgres => (
                "ANALYZE idem_records",
                "EXPLAIN DELETE FROM idem_records WHERE ctid = ANY (ARRAY(SELECT ctid FROM idem_records WHERE keep_until < \
                 statement_timestamp() - 0 * interval '1 millisecond' ORDER BY keep_until LIMIT 2000 FOR UPDATE SKIP \
                 LOCKED)) AND keep_until < statement_timestamp() - 0 * interval '1 millisecond'",
            ),
            Dialect::MySql => (
                "ANALYZE TABLE idem_records",
                "EXPLAIN DELETE FROM idem_records WHERE keep_until < TIMESTAMPADD(MICROSECOND, -0, UTC_TIMESTAMP(6)) \
                 ORDER BY keep_until LIMIT 2000",
            ),
        };
        run_sql(&lab, analyze).await;
        let plan = sqlx::raw_sql(explain).fetch_all(&lab.pool).await.unwrap();
        let plan: Vec<String> = plan
            .iter()
            .map(|row| {
                use sqlx::{Column as _, Row as _};
                let text = |column: usize| row.try_get_unchecked::<String, _>(column).unwrap_or_default();
                row.columns().iter().map(|column| text(column.ordinal())).collect::<Vec<_>>().join(" ")
            })
            .collect();
        let plan = plan.join("\n");
        assert!(plan.contains("idem_records_keep_until"), "{plan}");
        for scan in ["Seq Scan", "SCAN ", " ALL "] {
            assert!(!plan.contains(scan), "{plan}");
        }
    }
}

/// The instant itself still belongs to the record: MySQL's clock can be held still.
#[test]
#[ignore = "needs MySQL or MariaDB: ./scripts/test runs it"]
fn at_its_very_instant_a_row_stays() {
    use idem_tests::mysql::{DIALECT, Db, Lab, PoolOptions, raw};
    idem_tests::run(async {
        let lab = Lab::new().await;
        let options = PoolOptions::new()
            .max_connections(1)
            .after_connect(|connection, _| Box::pin(raw(connection, "SET timestamp = 1790000000.5")));
        let store = Db::new(options.connect(&lab.url).await.unwrap());
        let mut connection = lab.pool.acquire().await.unwrap();
        raw(&mut connection, &rows::records(DIALECT, "old", 0..1, 0)).await.unwrap();
        for (micros, gone) in [(500_001, 0), (500_000, 0), (499_999, 1)] {
            let at = format!("UPDATE idem_records SET keep_until = '2026-09-21 14:13:20.{micros}'");
            raw(&mut connection, &at).await.unwrap();
            assert_eq!(store.purge(quick(1)).await.unwrap().records, gone, "{micros}");
        }
        drop(connection);
        store.pool().close().await;
        lab.close().await;
    });
}

/// On SQLite units write while the archive has a batch, and it may use the store's one connection.
#[test]
fn an_archive_on_sqlite_is_in_nobodys_way() {
    use idem_tests::sqlite::{DIALECT, Lab, credit, raw};
    idem_tests::run(async {
        let lab = Lab::new().await;
        raw(&mut lab.pool.acquire().await.unwrap(), &rows::records(DIALECT, "old", 0..10, -1)).await.unwrap();
        let done = AtomicBool::new(false);
        let purge = Purge::new().archive(|batch| {
            let (store, done) = (&lab.store, &done);
            async move {
                // Purged by somebody else, and done again: this row is not to be deleted.
                sqlx::query("UPDATE idem_records SET keep_until = '2100-01-01T00:00:00.000Z' WHERE action_key = ?")
                    .bind(&batch[0].key)
                    .execute(store.pool())
                    .await?;
                let paid = store.once(key("meanwhile"), async |db| credit(db, "a", 1).await).await?;
                done.store(paid.is_first(), Ordering::SeqCst);
                Ok(())
            }
        });
        assert_eq!(lab.store.purge(purge).await.unwrap().records, 9);
        assert!(done.load(Ordering::SeqCst));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 2));
        lab.close().await;
    });
}
