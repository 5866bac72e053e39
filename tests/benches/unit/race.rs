//! Interleaved rounds: every contender once a round, in an order that turns, so that a drift of the machine meets all.

use crate::{
    contender::{Arena, Contender, Payment, quiet},
    network::Network,
};
use anyhow::{Context as _, ensure};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How a race is run.
#[derive(Clone, Copy)]
pub(crate) struct Race {
    pub(crate) rounds: usize,
    pub(crate) workers: usize,
    /// Deliveries a worker, contender and round.
    pub(crate) units: usize,
    pub(crate) delay: Duration,
}

/// What one contender needed.
pub(crate) struct Score {
    pub(crate) contender: Contender,
    /// Time a delivery, by round.
    pub(crate) times: Vec<Duration>,
    pub(crate) trips: Option<Trips>,
}

/// Round trips of one delivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Trips {
    /// Until the handler returned.
    pub(crate) waited: u64,
    /// With what the pool does afterwards.
    pub(crate) all: u64,
}

static ORDERS: AtomicU64 = AtomicU64::new(0);

impl Race {
    /// Runs the rounds. The first, which warms up, does not count.
    pub(crate) async fn run(&self, arena: &Arc<impl Arena>) -> anyhow::Result<Vec<Score>> {
        let repeats = self.payments();
        for contender in [Contender::RepeatPool, Contender::RepeatOnce] {
            self.deliver(arena, contender, repeats.clone(), true).await?;
        }
        let mut scores: Vec<Score> =
            Contender::ALL.iter().map(|&contender| Score { contender, times: Vec::new(), trips: None }).collect();
        for round in 0..=self.rounds {
            for turn in 0..scores.len() {
                let place = (round + turn) % scores.len();
                let score = &mut scores[place];
                let repeat = score.contender.is_repeat();
                let payments = if repeat { repeats.clone() } else { self.payments() };
                let time = self.deliver(arena, score.contender, payments, !repeat).await?;
                if round > 0 {
                    score.times.push(time);
                }
                tokio::time::sleep(quiet(self.delay)).await;
            }
        }
        Ok(scores)
    }

    /// Counts the round trips of every contender, one delivery at a time.
    pub(crate) async fn count(&self, arena: &impl Arena, network: &Network) -> anyhow::Result<Vec<Trips>> {
        const TRIES: usize = 5;
        let repeat = payment(0);
        for contender in [Contender::RepeatPool, Contender::RepeatOnce] {
            arena.handle(contender, 0, &repeat).await?;
        }
        let mut counts = Vec::new();
        for contender in Contender::ALL {
            let mut tries = Vec::new();
            for _ in 0..TRIES {
                tokio::time::sleep(quiet(self.delay)).await;
                let payment = if contender.is_repeat() { repeat.clone() } else { payment(0) };
                let before = network.trips();
                arena.handle(contender, 0, &payment).await?;
                let waited = network.trips() - before;
                tokio::time::sleep(quiet(self.delay)).await;
                tries.push(Trips { waited, all: network.trips() - before });
            }
            // The first of a connection has statements to prepare.
            counts.push(tries.into_iter().min().context("no tries")?);
        }
        Ok(counts)
    }

    /// New payments, for each worker its own.
    fn payments(&self) -> Vec<Vec<Payment>> {
        (0..self.workers).map(|worker| (0..self.units).map(|_| payment(worker)).collect()).collect()
    }

    /// Delivers every worker's payments, workers at once; gives the time a delivery.
    async fn deliver(
        &self,
        arena: &Arc<impl Arena>,
        contender: Contender,
        payments: Vec<Vec<Payment>>,
        first: bool,
    ) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let workers: Vec<_> = payments
            .into_iter()
            .enumerate()
            .map(|(worker, payments)| {
                let arena = Arc::clone(arena);
                tokio::spawn(async move {
                    for payment in &payments {
                        let was_first = arena.handle(contender, worker, payment).await?;
                        ensure!(was_first == first, "order {} was taken for the other kind", payment.order_no);
                    }
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            worker.await?.with_context(|| contender.label())?;
        }
        Ok(start.elapsed().div_f64(lossy(self.workers * self.units)))
    }
}

fn payment(worker: usize) -> Payment {
    let number = ORDERS.fetch_add(1, Ordering::Relaxed);
    Payment {
        order_no: format!("2026113022001{number:015}"),
        status: "TRADE_SUCCESS",
        notify_id: format!("2026113000222{number:021}"),
        account: worker.to_string(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark")]
fn lossy(count: usize) -> f64 {
    count as f64
}
