//! Many messages, each delivered one to five times, while consumers are killed and the broker and the database are
//! restarted: prints what was lost and doubled, and fails when either is not 0. See `docs/soak.md`.
//!
//! `cargo run -p idem-tests --bin soak -- [--messages N] [--kills N] [--workers N] [--seed N] [--broker NAME]..
//! [--database postgres|mysql].. [--naive]`
//!
//! By default all brokers and both databases, 300 messages each. Starts servers of its own and ends them. `--naive` runs the
//! handler without the attribute, and must fail.

#![allow(clippy::expect_used, clippy::panic, reason = "a program of the laboratory")]

use idem_tests::{
    brokers::{nats::Nats, rabbitmq::Rabbit},
    soak::{Body, Plan, Report, soak, work},
};
use std::process::{Command, ExitCode};

const BROKERS: [&str; 2] = ["rabbitmq", "nats"];
const DATABASES: [&str; 2] = ["postgres", "mysql"];

/// Runs something for the broker of that name.
macro_rules! with_broker {
    ($name:expr, $H:ident => $run:expr) => {
        match $name {
            "rabbitmq" => {
                type $H = Rabbit;
                $run
            }
            "nats" => {
                type $H = Nats;
                $run
            }
            other => panic!("no such broker: {other}; there are {BROKERS:?}"),
        }
    };
}

struct Arguments {
    plan: Plan,
    brokers: Vec<String>,
    databases: Vec<String>,
    naive: bool,
}

fn arguments(given: &[String]) -> Result<Arguments, String> {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let plan = Plan { messages: 300, most_deliveries: 5, workers: 3, kills: 8, seed };
    let mut arguments = Arguments { plan, brokers: Vec::new(), databases: Vec::new(), naive: false };
    let mut given = given.iter();
    while let Some(word) = given.next() {
        let mut value = || given.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        let number = |value: String| value.parse::<u32>().map_err(|_| format!("{word} {value}: not a number"));
        match &**word {
            "--messages" => arguments.plan.messages = number(value()?)?.max(1),
            "--kills" => arguments.plan.kills = number(value()?)?.max(1),
            "--workers" => arguments.plan.workers = number(value()?)?.max(1) as usize,
            "--seed" => arguments.plan.seed = number(value()?)?.into(),
            "--broker" => arguments.brokers.push(value()?),
            "--database" => arguments.databases.push(value()?),
            "--naive" => arguments.naive = true,
            other => return Err(format!("no such word: {other}. docs/soak.md has them all")),
        }
    }
    let all = |chosen: &mut Vec<String>, known: &[&str]| {
        if chosen.is_empty() {
            chosen.extend(known.iter().map(|&name| name.to_owned()));
        }
        chosen
            .iter()
            .find(|name| !known.contains(&&***name))
            .map_or(Ok(()), |name| Err(format!("{name} is none of {known:?}")))
    };
    all(&mut arguments.brokers, &BROKERS)?;
    all(&mut arguments.databases, &DATABASES)?;
    Ok(arguments)
}

#[tokio::main]
async fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let [worker, broker, described, url, rest @ ..] = &given[..]
        && worker == "worker"
    {
        let body = if rest.is_empty() { Body::Annotated } else { Body::Naive };
        with_broker!(&**broker, H => work::<H>(described, url, body).await);
        return ExitCode::FAILURE;
    }
    let arguments = match arguments(&given) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("soak: {error}");
            return ExitCode::from(2);
        }
    };
    let program = std::env::current_exe().expect("this program");
    let mut good = true;
    println!("soak: seed {}", arguments.plan.seed);
    for broker in &arguments.brokers {
        for database in &arguments.databases {
            let worker = |described: &str, url: &str| {
                let mut command = Command::new(&program);
                command.args(["worker", broker, described, url]);
                command.args(arguments.naive.then_some("naive"));
                command
            };
            let report: Report = with_broker!(&**broker, H => soak::<H>(arguments.plan, database, worker).await);
            println!("soak: {broker}, {database}: {report}");
            good &= report.is_good();
        }
    }
    println!("soak: {}", if good { "nothing lost, nothing doubled" } else { "FAILED" });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
