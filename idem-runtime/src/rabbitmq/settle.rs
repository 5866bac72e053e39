use super::message;
use crate::consume::{AckOutcome, BrokerError, DeadLetter, Envelope, Redelivery, Settle};
use lapin::{
    Acker, BasicProperties, Channel, Confirmation,
    options::{BasicAckOptions, BasicPublishOptions, BasicRejectOptions},
};
use std::{sync::Arc, time::Duration};

/// How one delivery is settled.
#[derive(Debug)]
pub struct Ticket {
    pub(super) acker: Acker,
    pub(super) properties: BasicProperties,
    pub(super) place: Arc<Place>,
}

/// Where copies go.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) channel: Channel,
    pub(super) queue: String,
    pub(super) dead_letter: Option<String>,
}

/// The queue in which copies wait for this step of the backoff.
pub(super) fn retry_queue(queue: &str, step: Duration) -> String {
    format!("{queue}.idem-retry.{}", step.as_millis())
}

impl Settle for Ticket {
    async fn ack(&mut self) -> AckOutcome {
        // `Ok(false)` and no error is what a channel says that is closed or was recovered since the delivery.
        match self.acker.ack(BasicAckOptions::default()).await {
            Ok(true) => AckOutcome::Sent,
            Ok(false) | Err(_) => AckOutcome::Lost,
        }
    }

    async fn retry(&mut self, envelope: &Envelope, redelivery: &Redelivery) -> Result<AckOutcome, BrokerError> {
        let queue = retry_queue(&self.place.queue, redelivery.step);
        let properties = message::copy(&self.properties, redelivery.headers());
        publish(&self.place.channel, &queue, &envelope.payload, properties).await?;
        Ok(self.ack().await)
    }

    async fn dead_letter(&mut self, envelope: &Envelope, letter: &DeadLetter) -> Result<AckOutcome, BrokerError> {
        let Some(queue) = &self.place.dead_letter else {
            return Err(BrokerError::new(
                format!("putting a message of `{}` aside", self.place.queue),
                "the consumer has no dead-letter queue: name one with `.dead_letter(..)`",
            ));
        };
        let properties = message::copy(&self.properties, letter.headers());
        publish(&self.place.channel, queue, &envelope.payload, properties).await?;
        Ok(self.ack().await)
    }

    async fn give_back(&mut self) -> AckOutcome {
        // Not `nack`: from RabbitMQ 4.3 on only a reject counts as a delivery.
        match self.acker.reject(BasicRejectOptions { requeue: true }).await {
            Ok(true) => AckOutcome::Sent,
            Ok(false) | Err(_) => AckOutcome::Lost,
        }
    }
}

/// Publishes to a queue, and returns when RabbitMQ has the message *in that queue*.
///
/// A confirm alone does not say so: a message that fits no queue is confirmed too. So it is mandatory, and must not come back.
pub(super) async fn publish(
    channel: &Channel,
    queue: &str,
    payload: &[u8],
    properties: BasicProperties,
) -> Result<(), BrokerError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        BrokerError::new(format!("publishing to the queue `{queue}`"), error)
    };
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let published = channel.basic_publish("".into(), queue.into(), options, payload, properties);
    let confirmation = published.await.map_err(|error| failed(error.into()))?;
    match confirmation.await.map_err(|error| failed(error.into()))? {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(returned)) => {
            Err(failed(format!("there is no such queue: {} {}", returned.reply_code, returned.reply_text).into()))
        }
        Confirmation::Nack(_) => Err(failed("RabbitMQ did not take it".into())),
        Confirmation::NotRequested => Err(failed("the channel has no publisher confirms".into())),
    }
}
