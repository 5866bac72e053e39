//! The purge in the background: it deletes, it stops, and its errors are nobody else's.

use idem_runtime::{Every, Key, Purge, SqliteStore};
use idem_tests::{logs::Listener, rows};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;
use tracing::Level;

fn often() -> Every {
    Every::new(Duration::from_millis(20)).jitter(Duration::from_millis(5))
}

idem_tests::on_every_database! {
    given {
        async fn fill(lab: &Lab, rows: u64) {
            raw(&mut lab.pool.acquire().await.unwrap(), &rows::records(DIALECT, "old", 0..rows, -1)).await.unwrap();
        }
    }

    async fn it_deletes_again_and_again_until_it_is_stopped(lab: Lab) {
        let (told, mut batches) = mpsc::unbounded_channel();
        let purge = Purge::new().batch(10).progress(move |progress| told.send(progress.rows).unwrap());
        let purger = lab.store.start_purger(purge, often());
        for _ in 0..3 {
            fill(&lab, 25).await;
            let mut purged = 0;
            while purged < 25 {
                purged += batches.recv().await.unwrap();
            }
            assert_eq!((purged, lab.claims().await), (25, 0));
        }
        purger.stop().await;
        // Its progress hook went with it: nothing is left that could purge.
        assert_eq!(batches.recv().await, None);
        fill(&lab, 5).await;
        assert_eq!(lab.claims().await, 5);
    }

    async fn stopping_waits_for_the_batch_in_progress_and_for_no_other(lab: Lab) {
        for dropped in [false, true] {
            fill(&lab, 30).await;
            let (entered, mut is_in) = mpsc::unbounded_channel();
            let (go, goes) = tokio::sync::watch::channel(false);
            let purge = Purge::new().batch(10).pause(Duration::ZERO).archive(move |_| {
                let (entered, mut goes) = (entered.clone(), goes.clone());
                async move {
                    let _ = entered.send(());
                    goes.wait_for(|go| *go).await?;
                    Ok(())
                }
            });
            let purger = lab.store.start_purger(purge, often());
            is_in.recv().await.unwrap();
            if dropped {
                drop(purger);
                go.send(true).unwrap();
                // The hook goes with the task.
                assert_eq!(is_in.recv().await, None, "another batch after the end");
            } else {
                let stopping = tokio::spawn(purger.stop());
                tokio::time::sleep(Duration::from_millis(20)).await;
                assert!(!stopping.is_finished(), "a batch was in progress");
                go.send(true).unwrap();
                stopping.await.unwrap();
            }
            assert_eq!(lab.claims().await, 20, "dropped: {dropped}");
            raw(&mut lab.pool.acquire().await.unwrap(), "DELETE FROM idem_records").await.unwrap();
        }
    }

    async fn an_error_or_a_panic_fails_no_delivery_and_the_next_run_comes(lab: Lab) {
        fill(&lab, 10).await;
        let runs = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&runs);
        let purge = Purge::new().archive(move |_| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            assert!(run != 1, "the hook panics");
            std::future::ready(if run < 3 { Err("the disk is full".into()) } else { Ok(()) })
        });
        let purger = lab.store.start_purger(purge, often());
        let mut paid = 0;
        while lab.rows("idem_records WHERE scope = 'old'").await > 0 {
            let key = Key::scope("background").part(&format!("{paid}")).finish();
            assert!(lab.store.once(key, async |db| credit(db, "a", 1).await).await.unwrap().is_first());
            paid += 1;
        }
        purger.stop().await;
        assert_eq!(runs.load(Ordering::SeqCst), 4);
        assert_eq!((lab.balance("a").await, lab.claims().await), (paid, paid));
    }

    async fn it_ends_with_the_stores_pool(lab: Lab) {
        let (told, mut batches) = mpsc::unbounded_channel::<()>();
        let store = lab.other_store(Lab::builder()).await;
        let _purger = store.start_purger(Purge::new().progress(move |_| drop(told.clone())), often());
        store.pool().close().await;
        assert_eq!(batches.recv().await, None);
    }
}

/// On one thread, which the listener hears.
#[test]
fn each_run_says_what_it_did_and_at_which_level() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = Listener::start();
    runtime.block_on(async {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        let sql = rows::records(idem_tests::dialect::Dialect::Sqlite, "old", 0..3, -1);
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(store.pool()).await.unwrap();
        let runs = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&runs);
        let purge = Purge::new().archive(move |_| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(if run == 0 { Err("the disk is full".into()) } else { Ok(()) })
        });
        let purger = store.start_purger(purge, often());
        let mut said = Vec::new();
        while said.len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            said.extend(listener.events());
        }
        purger.stop().await;
        let levels: Vec<Level> = said.iter().map(|event| event.level).collect();
        assert_eq!(levels[..3], [Level::WARN, Level::INFO, Level::DEBUG], "{said:?}");
        assert!(said[0].field("error").unwrap().contains("the disk is full"), "{said:?}");
        assert_eq!(said[1].field("records"), Some("3"), "{said:?}");
        // Without a delivery there is no outcome of one.
        assert!(said.iter().all(|event| event.field("idem.outcome").is_none()));
    });
}
