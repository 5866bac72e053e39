use super::{
    message::{DUE, Record, TOPIC, due_after},
    topic::retry_topic,
    window::{Shared, Waiting},
};
use crate::consume::{AckOutcome, BrokerError, DeadLetter, Envelope, Redelivery, Settle};
use rdkafka::{
    message::OwnedHeaders,
    producer::{FutureProducer, FutureRecord},
    util::Timeout,
};
use std::{fmt, sync::Arc, time::Duration};

/// How one message is settled.
#[derive(Debug)]
pub struct Ticket {
    pub(super) waiting: Waiting,
    pub(super) shared: Arc<Shared>,
    pub(super) copies: Arc<Copies>,
}

/// Where copies go.
pub(super) struct Copies {
    pub(super) producer: Option<FutureProducer>,
    pub(super) dead_letter: Option<String>,
    pub(super) retry_topics: bool,
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("dead_letter", &self.dead_letter).finish_non_exhaustive()
    }
}

impl Ticket {
    fn again(&self, waiting: Waiting, after: Duration) -> AckOutcome {
        let outcome = self.shared.lock().again(waiting, after);
        self.shared.arrived.notify_one();
        outcome
    }

    async fn copy(&self, topic: &str, headers: OwnedHeaders) -> Result<(), BrokerError> {
        let Some(producer) = &self.copies.producer else {
            return Err(BrokerError::new(format!("producing to `{topic}`"), "the consumer has no producer"));
        };
        produce(producer, topic, &self.waiting.record, headers).await
    }
}

impl Settle for Ticket {
    async fn ack(&mut self) -> AckOutcome {
        self.shared.lock().done(&self.waiting)
    }

    async fn retry(&mut self, _: &Envelope, redelivery: &Redelivery) -> Result<AckOutcome, BrokerError> {
        if !self.copies.retry_topics {
            let (attempts, first_at) = (Some(redelivery.attempts), Some(redelivery.first_at));
            return Ok(self.again(Waiting { attempts, first_at, ..self.waiting.clone() }, redelivery.after));
        }
        let origin = self.waiting.record.origin().to_owned();
        let topic = retry_topic(&origin, redelivery.step);
        let ours = [(DUE, due_after(redelivery.after)), (TOPIC, origin)];
        let headers = self.waiting.record.copy(redelivery.headers().into_iter().chain(ours));
        self.copy(&topic, headers).await?;
        Ok(self.ack().await)
    }

    async fn dead_letter(&mut self, _: &Envelope, letter: &DeadLetter) -> Result<AckOutcome, BrokerError> {
        let Some(topic) = &self.copies.dead_letter else {
            return Err(BrokerError::new(
                format!("putting a message of `{}` aside", letter.source),
                "the consumer has no dead-letter topic: name one with `.dead_letter(..)`",
            ));
        };
        let origin = [(TOPIC, self.waiting.record.origin().to_owned())];
        let headers = self.waiting.record.copy(letter.headers().into_iter().chain(origin));
        self.copy(topic, headers).await?;
        Ok(self.ack().await)
    }

    async fn give_back(&mut self) -> AckOutcome {
        // Nothing is handed out after the stop: the offset stays where it is, and the next consumer gets it.
        self.again(self.waiting.clone(), Duration::ZERO)
    }
}

/// Produces a copy of a record, and returns when the broker has it: the producer wants it of all in-sync replicas.
pub(super) async fn produce(
    producer: &FutureProducer,
    topic: &str,
    record: &Record,
    headers: OwnedHeaders,
) -> Result<(), BrokerError> {
    let mut copy = FutureRecord::<[u8], [u8]>::to(topic).headers(headers);
    copy.key = record.key.as_deref();
    copy.payload = record.payload.as_deref();
    match producer.send(copy, Timeout::Never).await {
        Ok(_) => Ok(()),
        Err((error, _)) => Err(BrokerError::new(format!("producing to `{topic}`"), error)),
    }
}
