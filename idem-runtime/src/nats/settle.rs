use super::message;
use crate::consume::{AckOutcome, BrokerError, DeadLetter, Envelope, Redelivery, Settle};
use async_nats::{
    HeaderMap, Request, Subject,
    jetstream::{AckKind, Context},
};
use std::{sync::Arc, time::Duration};

/// How one delivery is settled.
#[derive(Debug)]
pub struct Ticket {
    /// Where JetStream hears of this delivery.
    pub(super) reply: Subject,
    pub(super) subject: Subject,
    pub(super) headers: Option<HeaderMap>,
    /// What names the message in all of its deliveries.
    pub(super) identity: String,
    pub(super) place: Arc<Place>,
    /// Counted for the room that is left.
    pub(super) _held: Arc<()>,
}

/// Where answers and copies go.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) context: Context,
    pub(super) dead_letter: Option<String>,
    /// After how long without an answer JetStream delivers a message again.
    pub(super) lease: Duration,
}

impl Ticket {
    /// Answers a delivery, and waits until JetStream says that it knows.
    ///
    /// The client's own `double_ack` takes any message for that, also the one that says that nobody is there.
    async fn answer(&self, kind: AckKind) -> AckOutcome {
        // After that time it comes again, whatever was answered.
        let request = Request::new().payload(kind.into()).timeout(Some(self.place.lease));
        match self.place.context.client().send_request(self.reply.clone(), request).await {
            Ok(known) if known.status.is_none() => AckOutcome::Confirmed,
            Ok(_) | Err(_) => AckOutcome::Lost,
        }
    }
}

impl Settle for Ticket {
    async fn ack(&mut self) -> AckOutcome {
        self.answer(AckKind::Ack).await
    }

    async fn retry(&mut self, _: &Envelope, redelivery: &Redelivery) -> Result<AckOutcome, BrokerError> {
        // An answer that is lost is no failure: the message comes again all the same, when the lease is over.
        Ok(self.answer(AckKind::Nak(Some(redelivery.after))).await)
    }

    async fn dead_letter(&mut self, envelope: &Envelope, letter: &DeadLetter) -> Result<AckOutcome, BrokerError> {
        let Some(subject) = &self.place.dead_letter else {
            return Err(BrokerError::new(
                format!("putting a message of `{}` aside", letter.source),
                "the consumer has no subject for dead letters: name one with `.dead_letter(..)`",
            ));
        };
        let mut ours = letter.headers();
        ours.push((message::SUBJECT, self.subject.to_string()));
        // By the consumer too: several may have the same dead letters.
        let id = format!("idem-dead.{}.{}", letter.source, self.identity);
        let headers = message::copy(self.headers.as_ref(), &id, ours);
        publish(&self.place.context, subject, headers, envelope.payload.clone()).await?;
        // Not `Term`: the message is dealt with, and JetStream would tell its operators that it was not.
        Ok(self.ack().await)
    }

    async fn give_back(&mut self) -> AckOutcome {
        self.answer(AckKind::Nak(None)).await
    }

    async fn extend(&mut self) -> AckOutcome {
        self.answer(AckKind::Progress).await
    }
}

/// Publishes, and returns when a stream has the message.
pub(super) async fn publish(
    context: &Context,
    subject: &str,
    headers: HeaderMap,
    payload: Vec<u8>,
) -> Result<(), BrokerError> {
    let failed = |error| BrokerError::new(format!("publishing to the subject `{subject}`"), error);
    let sent = context.publish_with_headers(subject.to_owned(), headers, payload.into()).await;
    sent.map_err(|error| failed(Box::new(error)))?.await.map_err(|error| failed(Box::new(error)))?;
    Ok(())
}
