use crate::{client::publish, message};
use idem_runtime::consume::{AckOutcome, BrokerError, DeadLetter, Envelope, Redelivery, Settle};
use rocketmq_client_rust::DefaultMQProducer;
use rocketmq_model::common::message::message_ext::MessageExt;
use std::{
    fmt,
    sync::{Arc, mpsc},
    time::Duration,
};

/// What becomes of a message, for the client's listener that waits with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Consumed,
    /// It is to come again: in a topic that is consumed in order after this time, and else when the broker's table
    /// of delays says so.
    Again(Duration),
}

/// Where dead letters go.
pub(crate) struct Place {
    pub(crate) producer: DefaultMQProducer,
    pub(crate) topic: String,
    pub(crate) dead_letter: Option<String>,
}

/// How one message is settled.
pub struct Ticket {
    pub(crate) tell: mpsc::Sender<Verdict>,
    pub(crate) message: MessageExt,
    pub(crate) place: Arc<Place>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("id", &self.message.msg_id().as_str()).finish_non_exhaustive()
    }
}

impl Ticket {
    /// Fails when the listener waits no longer: it has let the message come again.
    fn tell(&self, verdict: Verdict) -> AckOutcome {
        match self.tell.send(verdict) {
            Ok(()) => AckOutcome::Sent,
            Err(_) => AckOutcome::Lost,
        }
    }
}

impl Settle for Ticket {
    async fn ack(&mut self) -> AckOutcome {
        self.tell(Verdict::Consumed)
    }

    async fn retry(&mut self, _: &Envelope, redelivery: &Redelivery) -> Result<AckOutcome, BrokerError> {
        Ok(self.tell(Verdict::Again(redelivery.after)))
    }

    async fn dead_letter(&mut self, _: &Envelope, letter: &DeadLetter) -> Result<AckOutcome, BrokerError> {
        let Some(topic) = &self.place.dead_letter else {
            return Err(BrokerError::new(
                format!("putting a message of `{}` aside", self.place.topic),
                "the consumer has no dead-letter topic: name one with `.dead_letter(..)`",
            ));
        };
        let copy = message::copy(&self.message, topic, letter.headers());
        publish(&self.place.producer, copy).await?;
        Ok(self.ack().await)
    }

    async fn give_back(&mut self) -> AckOutcome {
        self.tell(Verdict::Again(Duration::ZERO))
    }
}
