use super::{
    adapter::{Adapter, Plan, Redrive},
    attempts::AttemptLog,
    decode::Json,
    delivery::Envelope,
    settings::{Backoff, Settings, WhenIgnored},
};
use crate::store::{Connection, Store};
use std::{error::Error, fmt, future::pending, pin::Pin, sync::Arc, time::Duration};

pub(super) type LaneOf<M> = Box<dyn Fn(&M) -> String + Send + Sync>;

/// Takes messages from a broker and has each handled once; see [the module](super).
///
/// Made by an adapter, for example `rabbitmq::Consumer::new(channel, "deduct")`, or from one by [`of`](Self::of). `M` is
/// the handler's message; the compiler finds it from the handler.
#[must_use = "a consumer does nothing until it is `run`"]
pub struct Consumer<A: Adapter, M, D = Json> {
    pub(super) adapter: A,
    pub(super) settings: Settings,
    pub(super) decode: D,
    pub(super) lane_of: Option<LaneOf<M>>,
    pub(super) attempts: Option<Arc<dyn AttemptLog>>,
    /// How long the store keeps records.
    pub(super) retention: Option<Duration>,
    pub(super) shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<A: Adapter, M, D> fmt::Debug for Consumer<A, M, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("broker", &A::BROKER)
            .field("source", &self.adapter.source())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<A: Adapter, M> Consumer<A, M> {
    /// A consumer over an adapter, for messages in JSON.
    pub fn of(adapter: A) -> Self {
        Self {
            adapter,
            settings: Settings::default(),
            decode: Json,
            lane_of: None,
            attempts: None,
            retention: None,
            shutdown: Box::pin(pending()),
        }
    }
}

impl<A: Adapter, M, D> Consumer<A, M, D> {
    /// How many handlers run at once; 16 by default, at least 1. More messages than these (and the
    /// [`backlog`](Self::backlog)) are not taken from the broker.
    ///
    /// Each needs a connection of the store's pool while its body runs.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers.max(1);
        self
    }

    /// How many messages more are taken to wait in the lanes of [`ordered_by`](Self::ordered_by). By default none
    /// without lanes, and three times the concurrency with them.
    pub fn backlog(mut self, messages: usize) -> Self {
        self.settings.backlog = Some(messages);
        self
    }

    /// The pauses between attempts.
    pub fn retry(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// After how many failed attempts a message goes to the dead letters; 10 by default, at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = Some(attempts.max(1));
        self
    }

    /// Failed messages are tried again for ever. Permanent errors go to the dead letters all the same.
    pub fn unlimited_attempts(mut self) -> Self {
        self.settings.max_attempts = None;
        self
    }

    /// How long a message is held in its place while the store is away or busy, before it goes back to the broker
    /// to come again later; five minutes by default. With [`ordered_by`](Self::ordered_by) it is held for as long as the
    /// broker allows.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// What becomes of messages whose action is not called for; by default they are acked.
    pub fn when_ignored(mut self, then: WhenIgnored) -> Self {
        self.settings.when_ignored = then;
        self
    }

    /// Handles the messages of one key one after the other, in the order in which they were taken; other keys do not
    /// wait for it.
    ///
    /// A failing message is tried again in its place, and holds up its own key only: until it succeeds, or its attempts are
    /// exhausted, or for half the time that the broker lets a delivery be held; then it goes back, and with it those
    /// that wait behind it. (What waits takes places of the [`backlog`](Self::backlog): when they are all taken by one
    /// key, the others wait too.) The order is that of one consumer: with several on one queue the broker must give all
    /// messages of a key to one of them.
    pub fn ordered_by<K: fmt::Display>(mut self, key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        self.lane_of = Some(Box::new(move |message| key(message).to_string()));
        self
    }

    /// Counts attempts in a log of its own where the broker does not count exactly, so that those count that end in a
    /// killed process. A [`Store`] is such a log.
    pub fn count_attempts_in(mut self, log: impl AttemptLog + 'static) -> Self {
        self.attempts = Some(Arc::new(log));
        self
    }

    /// Says which store the handler uses, so that the consumer refuses to start when it keeps records for a shorter time
    /// than the broker can deliver a message again.
    pub fn covered_by<C: Connection>(mut self, store: &Store<C>) -> Self {
        self.retention = Some(store.settings().retention.as_duration());
        self
    }

    /// When this future is ready the consumer takes no more, finishes what it holds within the
    /// [`grace`](Self::grace), gives the rest back, and [`run`](Self::run) returns.
    pub fn shutdown(mut self, when: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(when);
        self
    }

    /// How long running handlers may go on after the shutdown; 30 seconds by default. Then their units are dropped, which
    /// rolls them back, and their messages are given back.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// How long an ack, a retry or a dead letter may take; 30 seconds by default. An ack that takes longer is lost.
    pub fn settle_timeout(mut self, limit: Duration) -> Self {
        self.settings.settle_timeout = limit;
        self
    }

    /// Another way from bytes to messages than JSON.
    ///
    /// ```
    /// # use idem_runtime::consume::{Adapter, Consumer, Envelope};
    /// # fn with<A: Adapter>(consumer: Consumer<A, String>) {
    /// let consumer = consumer.decode_with(|envelope: &Envelope| Ok(String::from_utf8(envelope.payload.clone())?));
    /// # let _ = consumer;
    /// # }
    /// ```
    pub fn decode_with<F>(self, decode: F) -> Consumer<A, M, F>
    where
        F: Fn(&Envelope) -> Result<M, Box<dyn Error + Send + Sync>>,
    {
        let Self { adapter, settings, lane_of, attempts, retention, shutdown, .. } = self;
        Consumer { adapter, settings, decode, lane_of, attempts, retention, shutdown }
    }

    /// The adapter, for its own settings.
    pub fn adapter_mut(&mut self) -> &mut A {
        &mut self.adapter
    }

    /// Moves up to `at_most` messages from the dead letters back to where they came from, and says how many. They are
    /// handled as if they came for the first time; the claim decides.
    ///
    /// # Errors
    /// The broker's. What was moved until then is moved.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: a message may then be in both places, and in the worst case is a
    /// duplicate.
    pub async fn redrive(self, at_most: Option<u64>) -> Result<u64, super::BrokerError>
    where
        A: Redrive,
    {
        self.adapter.redrive(at_most).await
    }

    pub(super) fn plan(&self) -> Plan {
        let settings = &self.settings;
        let lanes = if self.lane_of.is_some() { settings.concurrency.saturating_mul(3) } else { 0 };
        Plan {
            concurrency: settings.concurrency,
            in_flight: settings.concurrency.saturating_add(settings.backlog.unwrap_or(lanes)),
            max_attempts: settings.max_attempts,
            steps: settings.backoff.distinct(),
            ordered: self.lane_of.is_some(),
            patience: settings.patience,
            grace: settings.grace,
        }
    }
}
