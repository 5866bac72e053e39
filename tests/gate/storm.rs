//! Redis is emptied, stopped, started again and held in its tracks while messages are delivered one to three times each.

use crate::redis_server::RedisServer;
use idem_runtime::{
    Busy, Error, Key,
    gate::{Gate as _, MemoryGate, RedisGate},
};
use idem_tests::logs::everywhere;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tracing::Level;

const WORKERS: usize = 8;

fn key(message: usize) -> Key {
    Key::scope("gate.storm").part(&message.to_string()).finish().unwrap()
}

/// Each message one to three times, out of order, the same on each run.
fn deliveries(messages: usize) -> Vec<usize> {
    let mut deliveries: Vec<usize> =
        (0..messages).flat_map(|message| (0..=message % 3).map(move |_| message)).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // Within a window, so that a message's deliveries are near each other, as those of a broker are.
    for place in 0..deliveries.len() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let ahead = usize::try_from(state >> 33).unwrap() % 200;
        let other = (place + ahead).min(deliveries.len() - 1);
        deliveries.swap(place, other);
    }
    deliveries
}

/// What befalls Redis, by the share of deliveries done, in percent.
fn befall(redis: &mut RedisServer, done: usize) {
    match done {
        15 | 25 => redis.ask::<()>(&["FLUSHALL"]),
        35 => redis.stop(),
        50 => redis.run(),
        65 => redis.hold(),
        80 => redis.go_on(),
        90 => {
            redis.stop();
            redis.run();
        }
        _ => {}
    }
}

on_every_database_with_redis! {
    given {
        /// The number of messages that took effect another number of times than once.
        async fn wrong(lab: &Lab) -> i64 {
            lab.number("SELECT count(*) FROM (SELECT message FROM effects GROUP BY message HAVING count(*) <> 1) AS wrong").await
        }

        async fn storm(lab: &Lab, store: &Db, gate: &RedisGate, redis: RedisServer, messages: usize) {
            let mut db = lab.pool.acquire().await.unwrap();
            raw(&mut db, "CREATE TABLE effects (message VARCHAR(16) NOT NULL)").await.unwrap();
            drop(db);
            // The events of all threads are kept from here on.
            let namespace = &format!("storm-{}", redis.port);
            assert!(everywhere("idem.gate", namespace).is_empty());
            let deliveries = Arc::new(deliveries(messages));
            let (next, first, duplicate) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
            let began = Instant::now();
            let workers: Vec<_> = (0..WORKERS).map(|_| {
                let (deliveries, store) = (Arc::clone(&deliveries), store.clone());
                let (next, first, duplicate) = (Arc::clone(&next), Arc::clone(&first), Arc::clone(&duplicate));
                tokio::spawn(async move {
                    while let Some(&message) = deliveries.get(next.fetch_add(1, Ordering::SeqCst)) {
                        loop {
                            let outcome = store.once(key(message), async |db| {
                                let sql = "INSERT INTO effects (message) VALUES (?)";
                                execute(db, sql, &[&message.to_string()]).await.map(|_| ())
                            }).await;
                            match outcome {
                                Ok(outcome) if outcome.is_first() => first.fetch_add(1, Ordering::SeqCst),
                                Ok(outcome) if outcome.is_duplicate() => duplicate.fetch_add(1, Ordering::SeqCst),
                                // A mark says that the action is running: the broker delivers again.
                                Err(Error::Busy(Busy::InFlight { .. })) => {
                                    tokio::time::sleep(Duration::from_millis(5)).await;
                                    continue;
                                }
                                other => panic!("message {message}: {other:?}"),
                            };
                            break;
                        }
                    }
                })
            }).collect();
            let all = deliveries.len();
            let fate = Arc::clone(&next);
            let redis = tokio::task::spawn_blocking(move || {
                let mut redis = redis;
                let mut done = 0;
                while done < 100 {
                    while done < 100 && fate.load(Ordering::SeqCst) * 100 / all > done {
                        done += 1;
                        befall(&mut redis, done);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                redis
            });
            for worker in workers {
                worker.await.unwrap();
            }
            let _redis = redis.await.unwrap();
            let messages = i64::try_from(messages).unwrap();
            assert_eq!((lab.rows("effects").await, wrong(lab).await), (messages, 0));
            assert_eq!(lab.claims().await, messages);
            assert_eq!(first.load(Ordering::SeqCst) + duplicate.load(Ordering::SeqCst), all);
            assert_eq!(i64::try_from(first.load(Ordering::SeqCst)).unwrap(), messages);
            let lines = |level| everywhere("idem.gate", namespace).iter().filter(|event| event.level == level).count();
            crate::until("all trouble is over", async || {
                let _ = gate.look(&key(0)).await;
                lines(Level::WARN) == lines(Level::INFO)
            })
            .await;
            let said = everywhere("idem.gate", namespace);
            // It is tried once in a rest, so that is how often trouble can begin and end; and never once a message.
            let rests = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
            assert!(said.len() <= 4 * rests + 8, "{} lines in {rests} s: {said:#?}", said.len());
            assert!(lines(Level::WARN) > 0, "trouble went unnoticed");
            assert_eq!(lines(Level::WARN) + lines(Level::INFO), said.len(), "{said:#?}");
        }
    }

    async fn two_thousand_messages_take_effect_exactly_once(lab: Lab) {
        let redis = RedisServer::start();
        let namespace = format!("storm-{}", redis.port);
        let gate = RedisGate::connect(&redis.url(), &namespace).await.unwrap();
        let store = lab.other_store(Lab::builder().gate(gate.clone())).await;
        storm(&lab, &store, &gate, redis, 2000).await;
        store.pool().close().await;
    }

    async fn with_marks_and_a_near_gate_too(lab: Lab) {
        let redis = RedisServer::start();
        let namespace = format!("storm-{}", redis.port);
        let gate = RedisGate::connect(&redis.url(), &namespace).await.unwrap().in_flight(Duration::from_secs(2));
        let store = lab.other_store(Lab::builder().gate(MemoryGate::new(300).over(gate.clone()))).await;
        storm(&lab, &store, &gate, redis, 600).await;
        store.pool().close().await;
    }
}
