//! Ratios, and the goals beside them.

use crate::{
    contender::Contender,
    race::{Race, Score},
};
use std::time::Duration;

/// How many goals were met.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) met: usize,
    pub(crate) missed: Vec<String>,
}

/// A ratio of two contenders: the median of the rounds' ratios, and the ratio of all time spent.
struct Ratio {
    median: f64,
    total: f64,
}

/// Prints one race as a table. Ratios of databases in the same process have no network, and no goals.
pub(crate) fn print(title: &str, race: &Race, scores: &[Score], has_network: bool, tally: &mut Tally) {
    let speed = if race.workers == 1 { "median time" } else { "deliveries/s" };
    println!("\n### {title}\n");
    println!("| {:36} | {:9} | {:>12} | {:>14} | {:>14} | goals |", "", "trips", speed, "to pool.begin()", "to held");
    println!("|{}|{}|{}:|{}:|{}:|---|", "-".repeat(38), "-".repeat(11), "-".repeat(13), "-".repeat(16), "-".repeat(15));
    for score in scores {
        let trips = score.trips.map_or("-".to_owned(), |trips| format!("{} of {}", trips.waited, trips.all));
        let time = median(score.times.iter().map(Duration::as_secs_f64));
        let speed = if race.workers == 1 { format!("{:.0} us", time * 1e6) } else { format!("{:.0}", 1.0 / time) };
        let [pool, held] = score.contender.references().map(|reference| Ratio::of(score, reference, scores));
        let mut verdicts = Vec::new();
        for goal in if has_network { goals(score.contender, race) } else { Vec::new() } {
            let ratio = Ratio::of(score, goal.reference, scores).median;
            // As it is shown: a goal is not missed by less than that.
            let met = (ratio * 100.0).round() <= (goal.most * 100.0).round();
            let verdict = format!(
                "{} <= {:.2} of {}",
                if met { "PASS" } else { "MISS" },
                goal.most,
                if goal.reference == score.contender.references()[0] { "pool.begin()" } else { "held" }
            );
            if met {
                tally.met += 1;
            } else {
                tally.missed.push(format!("{title}: {}: {ratio:.2}, {verdict}", score.contender.label()));
            }
            verdicts.push(verdict);
        }
        println!(
            "| {:36} | {trips:9} | {speed:>12} | {:>15} | {:>14} | {} |",
            score.contender.label(),
            pool.to_string(),
            held.to_string(),
            verdicts.join(", ")
        );
    }
}

/// At most `most` of the time that `reference` needs.
struct Goal {
    reference: Contender,
    most: f64,
}

fn goals(contender: Contender, race: &Race) -> Vec<Goal> {
    if race.workers > 1 {
        return Vec::new();
    }
    match contender {
        Contender::Once | Contender::Handler => {
            let mut goals = vec![Goal { reference: Contender::Pool, most: 0.90 }];
            if race.delay > Duration::ZERO {
                goals.push(Goal { reference: Contender::Held, most: 1.00 });
            }
            goals
        }
        Contender::RepeatOnce => vec![Goal { reference: Contender::RepeatPool, most: 0.70 }],
        _ => Vec::new(),
    }
}

impl Ratio {
    fn of(score: &Score, reference: Contender, scores: &[Score]) -> Self {
        let reference = scores.iter().find(|score| score.contender == reference).unwrap_or(score);
        let rounds = score.times.iter().zip(&reference.times);
        let total = |score: &Score| score.times.iter().sum::<Duration>().as_secs_f64();
        Self {
            median: median(rounds.map(|(time, reference)| time.as_secs_f64() / reference.as_secs_f64())),
            total: total(score) / total(reference),
        }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "x{:.2} (x{:.2})", self.median, self.total)
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
