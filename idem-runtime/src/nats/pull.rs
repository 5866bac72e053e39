use super::{
    message,
    settle::{Place, Ticket},
};
use crate::consume::{BrokerError, Holding, Horizon, Subscription, Taken};
use async_nats::{
    StatusCode, Subject, Subscriber,
    connection::State,
    jetstream::{
        self, AckKind,
        consumer::{PullConsumer, pull::BatchConfig},
        context::ConsumerInfoErrorKind,
    },
};
use futures_util::StreamExt as _;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// How long JetStream keeps a request for messages that are not there yet.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often the connection is looked at while nothing comes.
const TICK: Duration = Duration::from_millis(500);
/// How long to wait before asking again after an answer that gave none.
const PAUSE: Duration = Duration::from_millis(200);
/// How long what is on its way at the end is waited for.
const DRAIN: Duration = Duration::from_secs(2);

/// A pull consumer at work.
///
/// It asks for as many messages as there is room, and again when it has them all: none waits in the client while its
/// lease runs out.
#[derive(Debug)]
pub struct Reading {
    pub(super) consumer: PullConsumer,
    pub(super) inbox: Subject,
    pub(super) incoming: Subscriber,
    pub(super) place: Arc<Place>,
    pub(super) horizon: Horizon,
    /// How many messages may be held.
    pub(super) places: usize,
    /// Above how many deliveries a message is put aside without its handler.
    pub(super) delivery_limit: Option<u32>,
    /// Cloned by each message that is held.
    pub(super) held: Arc<()>,
    /// How many messages are still to come of those that were asked for.
    pub(super) asked: usize,
    /// The connection that was asked through, counted.
    pub(super) connection: u64,
    pub(super) heard: Instant,
}

impl Reading {
    /// The longest request that the consumer's settings allow.
    fn expires(&self) -> Duration {
        let most = self.consumer.cached_info().config.max_expires;
        if most.is_zero() { EXPIRES } else { EXPIRES.min(most) }
    }

    fn heartbeat(&self) -> Duration {
        self.expires() / 6
    }

    fn failed(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BrokerError {
        let info = self.consumer.cached_info();
        BrokerError::new(format!("consuming `{}/{}`", info.stream_name, info.name), error)
    }

    fn connection(&self) -> u64 {
        self.place.context.client().statistics().connects.load(Ordering::Relaxed)
    }

    /// Asks for messages, when those that were asked for have come. Not through a connection that is down: the client
    /// would keep the request, and the one that follows it.
    async fn ask(&mut self) -> Result<(), BrokerError> {
        if self.asked > 0 || self.place.context.client().connection_state() != State::Connected {
            return Ok(());
        }
        let room = self.places.saturating_sub(Arc::strong_count(&self.held) - 1).max(1);
        let most = usize::try_from(self.consumer.cached_info().config.max_batch).unwrap_or(0);
        let batch = if most == 0 { room } else { room.min(most) };
        let (expires, idle_heartbeat) = (Some(self.expires()), self.heartbeat());
        self.connection = self.connection();
        let request = BatchConfig { batch, expires, idle_heartbeat, ..BatchConfig::default() };
        let asked = self.consumer.request_batch(request, self.inbox.clone()).await;
        asked.map_err(|error| self.failed(error))?;
        (self.asked, self.heard) = (batch, Instant::now());
        Ok(())
    }

    /// Nothing came for a while: whether the request is still there.
    async fn look_around(&mut self) -> Result<(), BrokerError> {
        let client = self.place.context.client();
        if client.connection_state() != State::Connected {
            return Ok(());
        }
        if self.connection() != self.connection {
            // A server that was started again knows nothing of it.
            self.asked = 0;
        } else if self.heard.elapsed() > self.heartbeat() * 3 {
            // If it is there all the same, it goes with the old inbox.
            self.inbox = client.new_inbox().into();
            self.incoming = client.subscribe(self.inbox.clone()).await.map_err(|error| self.failed(error))?;
            self.asked = 0;
        }
        Ok(())
    }

    /// An answer that is no message.
    async fn status(&mut self, status: StatusCode, description: Option<&str>) -> Result<(), BrokerError> {
        let description = description.unwrap_or_default();
        let told = description.to_ascii_lowercase();
        match status {
            StatusCode::IDLE_HEARTBEAT => return Ok(()),
            StatusCode::NOT_FOUND | StatusCode::TIMEOUT => {
                self.asked = 0;
                return Ok(());
            }
            _ if ["consumer deleted", "push based", "exceeded maxrequest"].iter().any(|end| told.contains(end)) => {
                return Err(self.failed(description.to_owned()));
            }
            // Nobody is there for it: it was deleted, or the server is only just up.
            StatusCode::NO_RESPONDERS => {
                if let Err(error) = self.consumer.get_info().await
                    && matches!(error.kind(), ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound)
                {
                    return Err(self.failed(error));
                }
            }
            _ => {}
        }
        self.asked = 0;
        sleep(PAUSE).await;
        Ok(())
    }

    fn taken(&self, message: async_nats::Message) -> Option<Taken<Ticket>> {
        let message = jetstream::Message { message, context: self.place.context.clone() };
        let (mut envelope, identity) = message::envelope(&message)?;
        let deliveries = envelope.attempt.least();
        if self.delivery_limit.is_some_and(|most| deliveries > most) {
            envelope.given_up = Some(format!("delivered {deliveries} times, and not dealt with"));
        }
        let jetstream::Message { message, .. } = message;
        let async_nats::Message { subject, headers, reply, .. } = message;
        let (place, held) = (self.place.clone(), self.held.clone());
        Some(Taken { envelope, settle: Ticket { reply: reply?, subject, headers, identity, place, _held: held } })
    }
}

impl Subscription for Reading {
    type Settle = Ticket;

    fn holding(&self) -> Holding {
        Holding { lease: Some(self.place.lease), longest: None }
    }

    fn horizon(&self) -> Option<Horizon> {
        Some(self.horizon.clone())
    }

    async fn next(&mut self) -> Result<Option<Taken<Ticket>>, BrokerError> {
        self.heard = Instant::now();
        loop {
            self.ask().await?;
            let Ok(message) = timeout(TICK, self.incoming.next()).await else {
                self.look_around().await?;
                continue;
            };
            let message = message.ok_or_else(|| self.failed("the client is closed"))?;
            self.heard = Instant::now();
            if let Some(status) = message.status {
                self.status(status, message.description.as_deref()).await?;
                continue;
            }
            self.asked = self.asked.saturating_sub(1);
            if let Some(taken) = self.taken(message) {
                return Ok(Some(taken));
            }
        }
    }

    async fn stop(&mut self) {
        let client = self.place.context.client();
        let draining = async {
            self.incoming.drain().await?;
            while let Some(message) = self.incoming.next().await {
                if let (None, Some(reply)) = (message.status, message.reply) {
                    client.publish(reply, AckKind::Nak(None).into()).await?;
                }
            }
            client.flush().await?;
            Ok::<_, async_nats::Error>(())
        };
        // What does not go back now comes again when its lease is over.
        let _ = timeout(DRAIN, draining).await;
    }
}
