//! What a unit costs, beside the same transaction written by hand with sqlx.
//!
//! `cargo bench -p idem-tests --bench unit -- [--rounds N] [--units N] [--delay-us N] [--database NAME]..`
//!
//! Compare only within one run. `docs/benchmark.md` says how to read the tables.

mod contender;
mod network;
mod race;
mod table;

use anyhow::{Context as _, bail, ensure};
use network::Network;
use race::{Race, Trips};
use std::{process::ExitCode, sync::Arc, time::Duration};
use table::Tally;

const USAGE: &str = "cargo bench -p idem-tests --bench unit -- [options]
  --rounds N       rounds that count, after one that warms up (40)
  --units N        deliveries of a contender in a round, by each worker (25; fewer where they take longer)
  --delay-us N     what the slow network takes in each direction (1000)
  --workers N      workers of the second table (8)
  --database NAME  sqlite, postgres or mysql; may be given again (all)";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Database {
    Sqlite,
    Postgres,
    MySql,
}

struct Options {
    rounds: usize,
    units: usize,
    workers: usize,
    delay: Duration,
    databases: Vec<Database>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` runs benchmarks too, without this.
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("this measures only under `cargo bench`");
        return Ok(ExitCode::SUCCESS);
    }
    let Some(options) = Options::parse(&arguments) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&options))
}

async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut tally = Tally::default();
    let mut failed = false;
    println!("Ratios: the median of the rounds' ratios, and in brackets that of the total times.");
    println!("Trips: those that the handler waits for, of all, with what the pool does afterwards.");
    for database in &options.databases {
        let result = match database {
            Database::Sqlite => sqlite(options, &mut tally).await,
            Database::Postgres => postgres(options, &mut tally).await,
            Database::MySql => mysql(options, &mut tally).await,
        };
        if let Err(error) = result {
            failed = true;
            eprintln!("\nNOT MEASURED, {}: {error:#}", database.name());
        }
    }
    println!("\nGoals: {} met, {} missed.", tally.met, tally.missed.len());
    for missed in &tally.missed {
        println!("  {missed}");
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

macro_rules! database {
    ($database:ident, $has_network:literal, $port:literal) => {
        async fn $database(options: &Options, tally: &mut Tally) -> anyhow::Result<()> {
            use contender::$database as database;

            let lab = lab(database::Lab::new).await?;
            database::prepare(&lab, options.workers).await?;
            let version = database::version(&lab).await?;
            let mut networks = vec![Duration::ZERO];
            if $has_network && options.delay > Duration::ZERO {
                networks.push(options.delay);
            }
            for delay in networks {
                // SQLite writes one at a time, so several workers would measure its queue.
                for workers in if $has_network { vec![1, options.workers] } else { vec![1] } {
                    let race = options.race(workers, delay);
                    let network = if $has_network {
                        let server = network::server(&lab.url, $port).context("no host in the database's URL")?;
                        Some(Network::to(server, delay)?)
                    } else {
                        None
                    };
                    let far = network.as_ref().and_then(|network| network.in_url(&lab.url));
                    let near = Some(&lab.url).filter(|_| delay.is_zero());
                    let url = near.or(far.as_ref()).context("no host in the database's URL")?.clone();
                    let arena = Arc::new(database::Contenders::connect(&url, workers).await?);
                    let mut scores = race.run(&arena).await?;
                    if let (1, Some(network), Some(far)) = (workers, network, far) {
                        let count = move || -> anyhow::Result<Vec<Trips>> {
                            // One thread, so that nothing in the background starts before the count is read.
                            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                            runtime.block_on(async {
                                let contenders = database::Contenders::connect(&far, workers).await?;
                                let trips = race.count(&contenders, &network).await?;
                                contenders.close().await;
                                Ok(trips)
                            })
                        };
                        let trips = tokio::task::spawn_blocking(count).await??;
                        scores.iter_mut().zip(trips).for_each(|(score, trips)| score.trips = Some(trips));
                    }
                    table::print(&title(&version, &race, $has_network), &race, &scores, $has_network, tally);
                    if let Ok(contenders) = Arc::try_unwrap(arena) {
                        contenders.close().await;
                    }
                }
            }
            let credited = lab.number(database::CREDITED).await;
            let claimed = lab.rows("done").await + lab.claims().await;
            ensure!(credited == claimed, "the money is wrong: {credited} credited, {claimed} claimed");
            lab.close().await;
            Ok(())
        }
    };
}

database!(sqlite, false, 0);
database!(postgres, true, 5432);
database!(mysql, true, 3306);

/// Makes a world; the lab panics when the server is missing, which is no reason to leave out the others.
async fn lab<L: Send + 'static, F: Future<Output = L> + Send + 'static>(new: fn() -> F) -> anyhow::Result<L> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let lab = tokio::spawn(async move { new().await }).await;
    std::panic::set_hook(hook);
    match lab {
        Ok(lab) => Ok(lab),
        Err(error) => match error.try_into_panic()?.downcast::<String>() {
            Ok(message) => bail!("{message}"),
            Err(_) => bail!("its tables could not be made"),
        },
    }
}

fn title(version: &str, race: &Race, has_network: bool) -> String {
    let network = match (has_network, race.delay.as_micros()) {
        (false, _) => String::new(),
        (true, 0) => ", loopback".to_owned(),
        (true, delay) => format!(", {delay} us each way"),
    };
    let workers = if race.workers == 1 { "one worker".to_owned() } else { format!("{} workers", race.workers) };
    format!("{version}{network}, {workers} ({} rounds of {} deliveries)", race.rounds, race.workers * race.units)
}

impl Database {
    const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::MySql => "MySQL",
        }
    }
}

impl Options {
    fn parse(arguments: &[String]) -> Option<Self> {
        let mut options =
            Self { rounds: 40, units: 25, workers: 8, delay: Duration::from_millis(1), databases: Vec::new() };
        let mut arguments = arguments.iter().filter(|argument| *argument != "--bench");
        while let Some(option) = arguments.next() {
            let value = arguments.next()?;
            match option.as_str() {
                "--rounds" => options.rounds = value.parse().ok().filter(|&rounds| rounds > 0)?,
                "--units" => options.units = value.parse().ok().filter(|&units| units > 0)?,
                "--workers" => options.workers = value.parse().ok().filter(|&workers| workers > 0)?,
                "--delay-us" => options.delay = Duration::from_micros(value.parse().ok()?),
                "--database" => options.databases.push(match value.as_str() {
                    "sqlite" => Database::Sqlite,
                    "postgres" => Database::Postgres,
                    "mysql" => Database::MySql,
                    _ => return None,
                }),
                _ => return None,
            }
        }
        if options.databases.is_empty() {
            options.databases = vec![Database::Sqlite, Database::Postgres, Database::MySql];
        }
        Some(options)
    }

    /// Fewer deliveries where each takes longer.
    fn race(&self, workers: usize, delay: Duration) -> Race {
        let share = if delay.is_zero() { 1 } else { 5 } * if workers == 1 { 1 } else { 2 };
        Race { rounds: self.rounds, workers, units: (self.units / share).max(1), delay }
    }
}
