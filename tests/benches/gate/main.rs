//! What a gate saves, and what Redis in trouble costs.
//!
//! `cargo bench -p idem-tests --bench gate -- [--rounds N] [--repeats N] [--messages N] [--database NAME]..`
//!
//! Compare only within one run. It starts a `redis-server` of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that does not work has nothing better to do"
)]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../gate/redis_server.rs"]
mod redis_server;

use idem_runtime::{
    Key,
    gate::{MemoryGate, RedisGate},
};
use redis_server::RedisServer;
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const USAGE: &str = "cargo bench -p idem-tests --bench gate -- [options]
  --rounds N       rounds that count, after one that warms up (20)
  --repeats N      deliveries of each contender in a round (200)
  --messages N     messages of the run in which Redis is stopped and emptied; 0 for none (10000)
  --database NAME  sqlite, postgres or mysql; may be given again (all)";

struct Options {
    rounds: usize,
    repeats: usize,
    messages: usize,
    databases: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { rounds: 20, repeats: 200, messages: 10_000, databases: Vec::new() };
        let mut words = arguments.iter().filter(|word| *word != "--bench");
        while let Some(word) = words.next() {
            let value = words.next()?;
            match word.as_str() {
                "--rounds" => options.rounds = value.parse().ok().filter(|rounds| *rounds > 0)?,
                "--repeats" => options.repeats = value.parse().ok().filter(|repeats| *repeats > 0)?,
                "--messages" => options.messages = value.parse().ok()?,
                "--database" => options.databases.push(value.clone()),
                _ => return None,
            }
        }
        Some(options)
    }

    fn wants(&self, database: &str) -> bool {
        self.databases.is_empty() || self.databases.iter().any(|name| name == database)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` runs benchmarks too, without this.
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("this measures only under `cargo bench`");
        return ExitCode::SUCCESS;
    }
    let Some(options) = Options::parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        if options.wants("sqlite") {
            sqlite(&options).await;
        }
        if options.wants("postgres") {
            postgres(&options).await;
        }
        if options.wants("mysql") {
            mysql(&options).await;
        }
    });
    ExitCode::SUCCESS
}

const LABELS: [&str; 6] = [
    "repeat, database",
    "repeat, gate in memory",
    "repeat, gate in Redis",
    "repeat, memory over Redis",
    "first, no gate",
    "first, memory over Redis",
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(database: &str, rounds: &[[Duration; LABELS.len()]]) {
    println!("\n{database}: microseconds a delivery (median), and the median of the rounds' ratios");
    for (place, label) in LABELS.iter().enumerate() {
        // Firsts are held against firsts.
        let base = if place < 4 { 0 } else { 4 };
        let time = median(rounds.iter().map(|round| round[place].as_secs_f64() * 1e6).collect());
        let ratio = median(rounds.iter().map(|round| round[place].as_secs_f64() / round[base].as_secs_f64()).collect());
        println!("  {label:<28}{time:>9.1} us   x{ratio:.4}");
    }
}

fn key(fact: &str) -> Key {
    Key::scope("bench.gate").part(fact).finish().unwrap()
}

/// Each message one to three times, near each other and out of order.
fn deliveries(messages: usize) -> Vec<usize> {
    let mut deliveries: Vec<usize> =
        (0..messages).flat_map(|message| (0..=message % 3).map(move |_| message)).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for place in 0..deliveries.len() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let ahead = usize::try_from(state >> 33).unwrap() % 200;
        let other = (place + ahead).min(deliveries.len() - 1);
        deliveries.swap(place, other);
    }
    deliveries
}

macro_rules! database {
    ($database:ident) => {
        async fn $database(options: &Options) {
            let lab = idem_tests::$database::Lab::new().await;
            let redis = RedisServer::start();
            $database::measure(options, &lab, &redis).await;
            if options.messages > 0 {
                $database::storm(options, &lab, redis).await;
            }
            lab.close().await;
        }

        mod $database {
            use super::*;
            use idem_tests::$database::{Lab, credit};

            pub(super) async fn measure(options: &Options, lab: &Lab, redis: &RedisServer) {
            let far = RedisGate::connect(&redis.url(), "bench").await.unwrap().timeout(Duration::from_secs(5));
            let stores = [
                lab.other_store(Lab::builder()).await,
                lab.other_store(Lab::builder().gate(MemoryGate::new(100_000))).await,
                lab.other_store(Lab::builder().gate(far.clone())).await,
                lab.other_store(Lab::builder().gate(MemoryGate::new(100_000).over(far))).await,
            ];
            let deliver = async |store: usize, fact: &str, first: bool| {
                let outcome = stores[store].once(key(fact), async |db| credit(db, "a", 1).await).await.unwrap();
                assert_eq!(outcome.is_first(), first);
            };
            let repeated: Vec<String> = (0..options.repeats).map(|number| format!("repeated-{number}")).collect();
            for fact in &repeated {
                deliver(0, fact, true).await;
            }
            let mut rounds = Vec::new();
            for round in 0..=options.rounds {
                let mut times = [Duration::ZERO; LABELS.len()];
                for turn in 0..LABELS.len() {
                    let place = (round + turn) % LABELS.len();
                    let began = Instant::now();
                    let count = match place {
                        4 | 5 => {
                            let (store, count) = (if place == 4 { 0 } else { 3 }, options.repeats.min(50));
                            for number in 0..count {
                                deliver(store, &format!("first-{place}-{round}-{number}"), true).await;
                            }
                            count
                        }
                        store => {
                            for fact in &repeated {
                                deliver(store, fact, false).await;
                            }
                            repeated.len()
                        }
                    };
                    times[place] = began.elapsed() / u32::try_from(count).unwrap();
                }
                if round > 0 {
                    rounds.push(times);
                }
            }
            for store in &stores {
                store.pool().close().await;
            }
            print(stringify!($database), &rounds);
            }

            pub(super) async fn storm(options: &Options, lab: &Lab, mut redis: RedisServer) {
                let gate = RedisGate::connect(&redis.url(), "storm").await.unwrap();
                let store = lab.other_store(Lab::builder().gate(gate)).await;
                let deliveries = Arc::new(deliveries(options.messages));
                let (next, next_fate) = (Arc::<AtomicUsize>::default(), deliveries.len() / 4);
                let before = lab.balance("b").await;
                let began = Instant::now();
                let workers: Vec<_> = (0..8)
                    .map(|_| {
                        let (deliveries, store, next) = (Arc::clone(&deliveries), store.clone(), Arc::clone(&next));
                        tokio::spawn(async move {
                            let (mut first, mut repeat, mut failed) = (0, 0, 0);
                            while let Some(message) = deliveries.get(next.fetch_add(1, Ordering::SeqCst)) {
                                let fact = key(&format!("storm-{message}"));
                                match store.once(fact, async |db| credit(db, "b", 1).await).await {
                                    Ok(outcome) if outcome.is_first() => first += 1,
                                    Ok(_) => repeat += 1,
                                    Err(error) => {
                                        failed += 1;
                                        eprintln!("{error}");
                                    }
                                }
                            }
                            (first, repeat, failed)
                        })
                    })
                    .collect();
                let fate = Arc::clone(&next);
                redis = tokio::task::spawn_blocking(move || {
                    let wait = |quarter| {
                        while fate.load(Ordering::SeqCst) < next_fate * quarter {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    };
                    wait(1);
                    redis.ask::<()>(&["FLUSHALL"]);
                    wait(2);
                    redis.stop();
                    wait(3);
                    redis.run();
                    redis
                })
                .await
                .unwrap();
                let (mut first, mut repeat, mut failed) = (0, 0, 0);
                for worker in workers {
                    let counted = worker.await.unwrap();
                    first += counted.0;
                    repeat += counted.1;
                    failed += counted.2;
                }
                println!(
                    "{}: Redis emptied, stopped and started again during {} deliveries of {} messages: {} effects in the \
                     database, {first} first, {repeat} repeats, {failed} errors, {:.1} s",
                    stringify!($database),
                    deliveries.len(),
                    options.messages,
                    lab.balance("b").await - before,
                    began.elapsed().as_secs_f64(),
                );
                store.pool().close().await;
                drop(redis);
            }
        }
    };
}

database!(sqlite);
database!(postgres);
database!(mysql);
