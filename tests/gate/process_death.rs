//! A process that passes the gate and dies before COMMIT, with no chance to clean up. Case C15.

use crate::{redis_server::RedisServer, until};
use idem_runtime::{
    Busy, Error, Key,
    gate::{Gate as _, Look},
};
use std::{os::unix::process::ExitStatusExt as _, process::Command, time::Duration};

fn key() -> Key {
    Key::scope("gate.process_death").part("one").finish().unwrap()
}

/// The signal that ended the consumer.
async fn die(arguments: [String; 4]) -> Option<i32> {
    let run = move || Command::new(env!("CARGO_BIN_EXE_dies_in_the_body")).args(arguments).status().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap().signal()
}

const SIGABRT: i32 = 6;

on_every_database_with_redis! {
    given {}

    async fn its_mark_is_busy_until_it_expires_and_then_the_action_runs(lab: Lab) {
        let redis = RedisServer::start();
        let gate = crate::redis::gate(&redis, "shop").await.in_flight(Duration::from_mins(1));
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        let mark = "3000".to_owned();
        assert_eq!(die([lab.url.clone(), redis.url(), "shop".to_owned(), mark]).await, Some(SIGABRT));
        let left: i64 = redis.ask(&["PTTL", &gate.redis_key(&key())]);
        assert!((1..=3000).contains(&left), "it left no mark, or one without an end: {left}");
        let at_once = store.once(key(), async |db| credit(db, "a", 100).await).await;
        match at_once {
            Err(Error::Busy(Busy::InFlight { retry_after })) => assert!(retry_after <= Duration::from_secs(3)),
            other => panic!("{other:?}"),
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        until("the mark expired", async || redis.ask::<i64>(&["EXISTS", &gate.redis_key(&key())]) == 0).await;
        assert!(store.once(key(), async |db| credit(db, "a", 100).await).await.unwrap().is_first());
        assert!(store.once(key(), async |db| credit(db, "a", 100).await).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (100, 1));
        assert_ne!(gate.look(&key()).await, Look::Unknown);
        store.pool().close().await;
    }
}
