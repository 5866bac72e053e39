//! The thread that polls, and what the engine sees of it.

use super::{
    client::{Callbacks, commit, list},
    message::Record,
    settle::{Copies, Ticket},
    window::{Place, Shared},
};
use crate::consume::{BrokerError, Horizon, Subscription, Taken};
use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
};
use std::{
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, time};

/// How often is committed what is done, and how long a poll takes at most.
const TICK: Duration = Duration::from_millis(100);
/// For how long the engine may have no room before the partitions are paused, and no poll is made. Pausing throws away
/// what the client has fetched already.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a poll takes when everything is paused.
const PAUSED_TICK: Duration = Duration::from_millis(20);
/// How long the end may take: a broker that is away would hold it up.
const FAREWELL: Duration = Duration::from_secs(10);

/// Topics that are being consumed.
#[derive(Debug)]
pub struct Reading {
    pub(super) shared: Arc<Shared>,
    pub(super) copies: Arc<Copies>,
    pub(super) horizon: Horizon,
    pub(super) source: String,
    pub(super) gone: Option<oneshot::Receiver<()>>,
}

/// How much may be taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Records that wait for the engine.
    pub(super) ready: usize,
    /// Records of one partition behind one that is not settled.
    pub(super) unsettled: usize,
    /// The longest that a copy in a retry topic waits.
    pub(super) longest_pause: Duration,
}

/// Polls until it is told to end. The consumer is dropped here: that may take long, and waits for callbacks.
pub(super) fn poll(consumer: BaseConsumer<Callbacks>, shared: &Shared, bounds: Bounds, gone: oneshot::Sender<()>) {
    let mut polling = Polling { consumer, shared, bounds, full_since: None, committed_at: Instant::now() };
    while polling.turn() {}
    let last = {
        let mut state = shared.lock();
        state.ended = true;
        let positions = state.uncommitted();
        state.sent(&positions);
        positions
    };
    commit(&polling.consumer, &last);
    drop(polling);
    shared.arrived.notify_one();
    // Nobody waits for it any more when the subscription was dropped.
    let _ = gone.send(());
}

type Tell = fn(&BaseConsumer<Callbacks>, &TopicPartitionList) -> KafkaResult<()>;

struct Polling<'s> {
    consumer: BaseConsumer<Callbacks>,
    shared: &'s Shared,
    bounds: Bounds,
    /// Since when the engine has had no room.
    full_since: Option<Instant>,
    committed_at: Instant,
}

impl Polling<'_> {
    /// One look around. `false` when it was the last.
    fn turn(&mut self) -> bool {
        let (full, stopping) = {
            let state = self.shared.lock();
            if state.ending {
                return false;
            }
            (state.ready.len() >= self.bounds.ready, state.stopping)
        };
        self.full_since = full.then(|| self.full_since.unwrap_or_else(Instant::now));
        if self.committed_at.elapsed() >= TICK {
            self.commit();
        }
        let hold = stopping || self.full_since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if full && !hold {
            self.shared.wait_for_room(self.bounds.ready, PATIENCE / 4);
            return true;
        }
        let tick = self.pause(hold);
        match self.consumer.poll(tick) {
            None => {}
            Some(Ok(message)) => {
                let record = Record::of(&message);
                self.shared.lock().take(record, self.bounds.longest_pause);
                self.shared.arrived.notify_one();
            }
            Some(Err(error)) if is_final(&error) || self.consumer.client().fatal_error().is_some() => {
                self.shared.lock().failed = Some(error);
                self.shared.arrived.notify_one();
                return false;
            }
            // The client goes on by itself.
            Some(Err(error)) => tracing::warn!(target: "idem", error = %error, "trouble with Kafka"),
        }
        true
    }

    /// Sends what is done. What the broker says to it comes to the callback.
    fn commit(&mut self) {
        self.committed_at = Instant::now();
        let positions = {
            let mut state = self.shared.lock();
            let positions = state.uncommitted();
            state.sent(&positions);
            positions
        };
        if positions.is_empty() {
            return;
        }
        if let Err(error) = list(&positions).and_then(|list| self.consumer.commit(&list, CommitMode::Async)) {
            tracing::warn!(target: "idem", error = %error, "offsets not committed");
            let mut state = self.shared.lock();
            for (place, _) in &positions {
                state.refused(place);
            }
        }
    }

    /// Pauses and resumes partitions, and says for how long to poll.
    fn pause(&self, all: bool) -> Duration {
        let (mut pause, mut resume, mut tick) = (Vec::new(), Vec::new(), if all { PAUSED_TICK } else { TICK });
        {
            let now = time::Instant::now();
            let mut state = self.shared.lock();
            for (place, owned) in &mut state.partitions {
                let waits = owned.not_before.and_then(|due| due.checked_duration_since(now)).filter(|w| !w.is_zero());
                if let Some(waits) = waits {
                    tick = tick.min(waits);
                }
                let full = owned.watermark.len() >= self.bounds.unsettled;
                if full {
                    tick = tick.min(PAUSED_TICK);
                }
                let paused = all || full || waits.is_some();
                if paused != owned.paused {
                    owned.paused = paused;
                    if paused { &mut pause } else { &mut resume }.push((place.clone(), 0));
                }
            }
        }
        let told = |places: &[(Place, i64)], tell: Tell| {
            if places.is_empty() {
                return;
            }
            if let Err(error) = list(places).and_then(|list| tell(&self.consumer, &list)) {
                tracing::warn!(target: "idem", error = %error, "partitions not paused or resumed");
            }
        };
        told(&pause, BaseConsumer::pause);
        told(&resume, BaseConsumer::resume);
        tick
    }
}

/// Whether waiting does not help.
fn is_final(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::Fatal
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::AutoOffsetReset
        )
    )
}

impl Subscription for Reading {
    type Settle = Ticket;

    fn horizon(&self) -> Option<Horizon> {
        Some(self.horizon.clone())
    }

    async fn next(&mut self) -> Result<Option<Taken<Ticket>>, BrokerError> {
        loop {
            let next = {
                let mut state = self.shared.lock();
                if let Some(error) = state.failed.take() {
                    return Err(BrokerError::new(format!("consuming {}", self.source), error));
                }
                if state.ended {
                    return Ok(None);
                }
                state.next()
            };
            match next {
                Ok(waiting) => {
                    self.shared.made_room();
                    let envelope = waiting.record.envelope(waiting.attempts, waiting.first_at);
                    let (shared, copies) = (self.shared.clone(), self.copies.clone());
                    return Ok(Some(Taken { envelope, settle: Ticket { waiting, shared, copies } }));
                }
                Err(due) => {
                    let due = async {
                        match due {
                            Some(due) => time::sleep_until(due).await,
                            None => pending().await,
                        }
                    };
                    // One that is not waited for is kept until it is.
                    let _ = futures_util::future::select(
                        std::pin::pin!(self.shared.arrived.notified()),
                        std::pin::pin!(due),
                    )
                    .await;
                }
            }
        }
    }

    async fn stop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.made_room();
    }

    async fn finish(&mut self) {
        self.shared.end();
        if let Some(gone) = self.gone.take()
            && time::timeout(FAREWELL, gone).await.is_err()
        {
            tracing::warn!(target: "idem", from = self.source, "the last offsets may not be committed: Kafka does not answer");
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.shared.end();
    }
}
