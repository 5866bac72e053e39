//! The soak: many messages, each delivered several times, while consumers are killed and the broker and the database are
//! restarted. What was lost or doubled is counted in the database.

#![allow(clippy::missing_panics_doc, clippy::must_use_candidate, reason = "what fails here fails the soak")]

mod database;
mod worker;

pub use database::Node;
pub use worker::{Body, work};

use crate::brokers::{Harness, Server, credit_of, quick};
use fastrand::Rng;
use std::{
    fmt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long nothing may happen before the run is given up.
const PATIENCE: Duration = Duration::from_mins(2);

/// More than a message can use up by being held in processes that are killed, which some brokers count; less than brokers
/// allow by themselves.
const MOST_ATTEMPTS: u32 = 90;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many actions.
    pub messages: u32,
    /// The most often that one is sent.
    pub most_deliveries: u32,
    /// How many consumer processes.
    pub workers: usize,
    /// How often consumers are killed; the broker is restarted a fifth as often, the database a tenth, at least twice each.
    pub kills: u32,
    /// Where chance begins: the same seed plans the same faults.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Actions.
    pub messages: u32,
    /// How many messages were sent for them.
    pub sent: u32,
    /// Consumers that were killed.
    pub worker_kills: u32,
    /// Stops and kills of the broker.
    pub broker_restarts: u32,
    /// Crashes of the database.
    pub database_restarts: u32,
    /// Actions without an effect.
    pub lost: i64,
    /// Effects too many.
    pub doubled: i64,
    /// How far the sum of money is from what it should be.
    pub money_off: i64,
    /// Messages that the broker still has.
    pub left: u64,
    /// Messages among the dead letters.
    pub dead: usize,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Whether each action took effect once, and nothing is left.
    pub fn is_good(&self) -> bool {
        (self.lost, self.doubled, self.money_off, self.left, self.dead) == (0, 0, 0, 0, 0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} actions in {} messages, {} consumers killed, {} broker and {} database restarts: {} lost, {} doubled, \
             money off by {}, {} left, {} dead letters; {:.0} messages a second",
            self.messages,
            self.sent,
            self.worker_kills,
            self.broker_restarts,
            self.database_restarts,
            self.lost,
            self.doubled,
            self.money_off,
            self.left,
            self.dead,
            f64::from(self.sent) / self.took.as_secs_f64().max(0.001),
        )
    }
}

/// The consumer processes. One that ends is started again, as a supervisor does.
struct Workers<'a> {
    start: &'a dyn Fn() -> Command,
    running: Vec<Child>,
}

impl Workers<'_> {
    fn keep_alive(&mut self) {
        for child in &mut self.running {
            if child.try_wait().expect("its status").is_some() {
                *child = (self.start)().stdin(Stdio::null()).spawn().expect("a consumer process");
            }
        }
    }

    /// With SIGKILL.
    fn kill(&mut self, which: usize) {
        let child = &mut self.running[which];
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Worker,
    BrokerStops,
    BrokerDies,
    Database,
}

fn faults(plan: &Plan, rng: &mut Rng) -> Vec<Fault> {
    let mut faults = vec![Fault::Worker; plan.kills as usize];
    faults.extend(vec![Fault::BrokerStops; plan.kills.div_ceil(10) as usize]);
    faults.extend(vec![Fault::BrokerDies; plan.kills.div_ceil(10) as usize]);
    faults.extend(vec![Fault::Database; (plan.kills / 10).max(2) as usize]);
    rng.shuffle(&mut faults);
    faults
}

/// Runs it on a broker and a database of its own. `worker` is the command of a consumer process; it gets where the queue
/// is ([`Harness::described`]) and the database's URL, and calls [`work`].
pub async fn soak<H: Harness>(plan: Plan, database: &str, worker: impl Fn(&str, &str) -> Command) -> Report {
    let mut rng = Rng::with_seed(plan.seed);
    let node = Node::start(database).await;
    let ledger = database::Ledger::new(database, &node.url()).await;
    let mut harness = H::new(Server::Own).await;
    let described = harness.described();
    let start = || worker(&described, &node.url());
    let began = Instant::now();

    let mut payloads: Vec<String> = (0..plan.messages)
        .flat_map(|no| vec![credit_of(&no.to_string()); rng.u32(1..=plan.most_deliveries) as usize])
        .collect();
    rng.shuffle(&mut payloads);
    let mut report = Report { messages: plan.messages, ..Report::default() };
    report.sent = u32::try_from(payloads.len()).expect("not that many");

    let mut workers = Workers { start: &start, running: Vec::new() };
    for _ in 0..plan.workers {
        workers.running.push(start().stdin(Stdio::null()).spawn().expect("a consumer process"));
    }
    let faults = faults(&plan, &mut rng);
    let portion = payloads.len().div_ceil(faults.len()).max(1);
    for (number, fault) in faults.iter().enumerate() {
        harness
            .send_all(payloads.get(number * portion..payloads.len().min((number + 1) * portion)).unwrap_or_default())
            .await;
        tokio::time::sleep(Duration::from_millis(rng.u64(0..400))).await;
        workers.keep_alive();
        match fault {
            Fault::Worker => {
                workers.kill(rng.usize(0..plan.workers));
                report.worker_kills += 1;
            }
            Fault::BrokerStops | Fault::BrokerDies => {
                if matches!(fault, Fault::BrokerStops) {
                    harness.stop().await;
                } else {
                    harness.kill().await;
                }
                harness.start().await;
                report.broker_restarts += 1;
            }
            Fault::Database => {
                node.crash().await;
                tokio::time::sleep(Duration::from_millis(rng.u64(0..1000))).await;
                node.restart().await;
                report.database_restarts += 1;
            }
        }
        workers.keep_alive();
        eprintln!("soak: {fault:?}; {} of {} actions done", ledger.done().await, plan.messages);
    }

    let (mut done, mut moved) = (0, Instant::now());
    while done < i64::from(plan.messages) && moved.elapsed() < PATIENCE {
        workers.keep_alive();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = ledger.done().await;
        if now > done {
            (done, moved) = (now, Instant::now());
            eprintln!("soak: {done} of {} actions done", plan.messages);
        }
    }
    report.took = began.elapsed();
    drop(workers);
    // What was on its way to processes that are gone, and the repeats that nobody has looked at yet.
    let since = Instant::now();
    loop {
        report.left = harness.left().await;
        if report.left == 0 || since.elapsed() > PATIENCE {
            break;
        }
        let (consumer, _line) = harness.consumer().await;
        let a_while = tokio::time::sleep(Duration::from_secs(3));
        let _ = ledger.consume(quick(consumer).concurrency(16).max_attempts(MOST_ATTEMPTS).shutdown(a_while)).await;
    }
    report.dead = harness.dead_letters().await.len();
    ledger.count(plan.messages, &mut report).await;
    harness.close().await;
    report
}
