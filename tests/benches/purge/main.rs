//! What a purge costs, and what it costs the deliveries beside it.
//!
//! `cargo bench -p idem-tests --bench purge -- [--rows N] [--batch N] [--pause-ms N] [--database NAME]..`
//!
//! Each database gets a table: deliveries alone, then beside one purge, then beside two. Delays are those of a whole unit,
//! and compare only within one table.

use anyhow::{Context as _, bail};
use idem_runtime::{Key, Purge, Purged};
use idem_tests::rows;
use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const USAGE: &str = "cargo bench -p idem-tests --bench purge -- [options]
  --rows N         expired rows (200000); a tenth of it are live
  --batch N        rows of a batch (2000)
  --pause-ms N     between two batches (10)
  --workers N      deliveries at once (2)
  --database NAME  sqlite, postgres or mysql; may be given again (all)";

struct Options {
    rows: u64,
    batch: u32,
    pause: Duration,
    workers: u64,
    databases: Vec<String>,
}

/// One line of a table.
struct Line {
    label: &'static str,
    purge: Option<Cost>,
    delays: Vec<Duration>,
    took: Duration,
}

struct Cost {
    purged: Vec<Purged>,
    took: Duration,
    in_batches: Duration,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` runs benchmarks too, without this.
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("this measures only under `cargo bench`");
        return Ok(ExitCode::SUCCESS);
    }
    let options = match Options::parse(&arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        for database in &options.databases {
            println!(
                "\n### {database}: {} expired rows, batches of {}, {} ms between them, {} workers\n",
                options.rows,
                options.batch,
                options.pause.as_millis(),
                options.workers
            );
            let lines = match database.as_str() {
                "sqlite" => sqlite::measure(&options).await?,
                "postgres" => postgres::measure(&options).await?,
                "mysql" => mysql::measure(&options).await?,
                other => bail!("no database {other}\n{USAGE}"),
            };
            print(lines);
        }
        Ok(ExitCode::SUCCESS)
    })
}

impl Options {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options =
            Self { rows: 200_000, batch: 2000, pause: Duration::from_millis(10), workers: 2, databases: Vec::new() };
        let mut arguments = arguments.iter().filter(|argument| *argument != "--bench");
        while let Some(name) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--rows" => options.rows = value.parse()?,
                "--batch" => options.batch = value.parse()?,
                "--pause-ms" => options.pause = Duration::from_millis(value.parse()?),
                "--workers" => options.workers = value.parse()?,
                "--database" => options.databases.push(value.clone()),
                _ => bail!("no option {name}"),
            }
        }
        if options.databases.is_empty() {
            options.databases = ["sqlite", "postgres", "mysql"].map(str::to_owned).into();
        }
        Ok(options)
    }
}

macro_rules! database {
    ($database:ident) => {
        mod $database {
            use super::*;
            use idem_tests::$database::*;

            pub(super) async fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
                let lab = Lab::new().await;
                fill(&lab, "live", options.rows / 10, 3_600_000).await?;
                // On SQLite stores take turns within the store only, as an application's do, so all share one.
                let mut lines = vec![deliver(&lab, options, "deliveries alone", 0).await?];
                for (label, purges) in [("beside one purge", 1), ("beside two purges", 2)] {
                    fill(&lab, "old", options.rows, -1).await?;
                    lines.push(deliver(&lab, options, label, purges).await?);
                    anyhow::ensure!(lab.rows("idem_records WHERE scope = 'old'").await == 0, "rows are left");
                }
                lab.close().await;
                Ok(lines)
            }

            async fn fill(lab: &Lab, scope: &str, rows: u64, kept_for: i64) -> anyhow::Result<()> {
                let mut connection = lab.pool.acquire().await?;
                for from in (0..rows).step_by(1000) {
                    let rows = rows::records(DIALECT, scope, from..rows.min(from + 1000), kept_for);
                    raw(&mut connection, &rows).await?;
                }
                if DIALECT == Dialect::Postgres {
                    raw(&mut connection, "VACUUM ANALYZE idem_records").await?;
                }
                Ok(())
            }

            /// Deliveries until the purges are done, or for some seconds without one.
            async fn deliver(lab: &Lab, options: &Options, label: &'static str, purges: usize) -> anyhow::Result<Line> {
                let (over, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
                let mut workers = Vec::new();
                for worker in 0..options.workers {
                    let (store, over) = (lab.store.clone(), Arc::clone(&over));
                    workers.push(tokio::spawn(async move {
                        let account = if worker % 2 == 0 { "a" } else { "b" };
                        let mut delays = Vec::new();
                        while !over.load(Ordering::SeqCst) {
                            let fact = format!("{worker}-{}", delays.len());
                            let key = Key::scope("bench").part(label).text(":").part(&fact).finish();
                            let begun = Instant::now();
                            let paid = store.once(key, async |db| credit(db, account, 1).await).await?;
                            anyhow::ensure!(paid.is_first(), "{paid:?}");
                            delays.push(begun.elapsed());
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                        anyhow::Ok(delays)
                    }));
                }
                let purge = if purges == 0 {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    None
                } else {
                    // After the workers, which have prepared their statements by then.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let in_batches = Arc::new(Mutex::new(Duration::ZERO));
                    let begun = Instant::now();
                    let mut running = Vec::new();
                    for _ in 0..purges {
                        let (store, sum) = (lab.store.clone(), Arc::clone(&in_batches));
                        let purge = Purge::new().batch(options.batch).pause(options.pause).progress(move |progress| {
                            *sum.lock().unwrap_or_else(PoisonError::into_inner) += progress.took;
                        });
                        running.push(tokio::spawn(async move { store.purge(purge).await }));
                    }
                    let mut purged = Vec::new();
                    for purge in running {
                        purged.push(purge.await??);
                    }
                    let took = begun.elapsed();
                    let in_batches = *in_batches.lock().unwrap_or_else(PoisonError::into_inner);
                    Some(Cost { purged, took, in_batches })
                };
                over.store(true, Ordering::SeqCst);
                let mut delays = Vec::new();
                for worker in workers {
                    delays.extend(worker.await??);
                }
                Ok(Line { label, purge, delays, took: begun.elapsed() })
            }
        }
    };
}

database!(sqlite);
database!(postgres);
database!(mysql);

fn print(lines: Vec<Line>) {
    println!(
        "| {:20} | {:>10} | {:>13} | {:>11} | {:>12} | {:>10} | {:>10} | {:>10} |",
        "", "rows/s", "us/row, busy", "worst batch", "deliveries/s", "median", "p99", "worst"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for mut line in lines {
        line.delays.sort_unstable();
        let at = |share: usize| {
            let place = (line.delays.len() * share / 1000).min(line.delays.len().saturating_sub(1));
            line.delays.get(place).map_or("-".to_owned(), |delay| millis(*delay))
        };
        let [rows, busy, worst] = line.purge.as_ref().map_or(["-", "-", "-"].map(str::to_owned), |cost| {
            let rows = cost.purged.iter().map(Purged::rows).sum::<u64>();
            let worst = cost.purged.iter().map(|purged| purged.longest_batch).max().unwrap_or_default();
            [
                format!("{:.0}", f64::from(u32::try_from(rows).unwrap_or(u32::MAX)) / cost.took.as_secs_f64()),
                format!("{:.1}", cost.in_batches.as_secs_f64() * 1e6 / f64::from(u32::try_from(rows).unwrap_or(1))),
                millis(worst),
            ]
        });
        let speed = f64::from(u32::try_from(line.delays.len()).unwrap_or(u32::MAX)) / line.took.as_secs_f64();
        println!(
            "| {:20} | {rows:>10} | {busy:>13} | {worst:>11} | {speed:>12.0} | {:>10} | {:>10} | {:>10} |",
            line.label,
            at(500),
            at(990),
            at(1000)
        );
    }
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
