use super::{entry, scripts};
use crate::consume::{AckOutcome, BrokerError, DeadLetter, Envelope, Redelivery, Settle};
use redis::{ScriptInvocation, aio::ConnectionManager};
use std::{sync::Arc, time::Duration};
use tokio::sync::OwnedSemaphorePermit;

/// How one delivery is settled.
#[derive(Debug)]
pub struct Ticket {
    pub(super) id: String,
    /// How often the entry was delivered, this time included: a later delivery, also to this consumer, has another one.
    pub(super) delivered: u32,
    pub(super) fields: Vec<Vec<u8>>,
    pub(super) place: Arc<Place>,
    pub(super) _room: OwnedSemaphorePermit,
}

/// Where deliveries are settled.
pub(super) struct Place {
    /// Never the connection that waits for entries: what comes after a blocking read waits for its end.
    pub(super) commands: ConnectionManager,
    pub(super) stream: String,
    pub(super) group: String,
    pub(super) consumer: String,
    pub(super) retries: String,
    pub(super) dead_letter: Option<String>,
    pub(super) body: String,
    pub(super) lease: Duration,
    pub(super) deletes: bool,
}

/// What a script said of a delivery.
enum Answer {
    Done,
    NotOwner,
    Deleted,
}

impl Ticket {
    fn script(&self, what: &str) -> ScriptInvocation<'static> {
        let place = &self.place;
        let mut script = scripts::SETTLE.key(&place.stream);
        // Without dead letters no script asks for that key.
        script.key(&place.retries).key(place.dead_letter.as_ref().unwrap_or(&place.stream));
        script.arg(what).arg(&place.group).arg(&place.consumer).arg(&self.id).arg(self.delivered);
        script
    }

    async fn answer(&self, script: &ScriptInvocation<'_>, doing: &str) -> Result<Answer, BrokerError> {
        let mut commands = self.place.commands.clone();
        let answer: Result<i64, _> = script.invoke_async(&mut commands).await;
        let failed = |error| BrokerError::new(format!("{doing} `{}` of `{}`", self.id, self.place.stream), error);
        Ok(match answer.map_err(failed)? {
            1 => Answer::Done,
            -1 => Answer::Deleted,
            _ => Answer::NotOwner,
        })
    }

    async fn outcome(&self, script: &ScriptInvocation<'_>) -> AckOutcome {
        match self.answer(script, "settling").await {
            Ok(Answer::Done) => AckOutcome::Confirmed,
            Ok(Answer::NotOwner | Answer::Deleted) => AckOutcome::NotOwner,
            Err(_) => AckOutcome::Lost,
        }
    }
}

impl Settle for Ticket {
    async fn ack(&mut self) -> AckOutcome {
        let mut script = self.script("ack");
        script.arg(u8::from(self.place.deletes));
        self.outcome(&script).await
    }

    async fn retry(&mut self, _: &Envelope, redelivery: &Redelivery) -> Result<AckOutcome, BrokerError> {
        let mut script = self.script("later");
        // Taking it adds one.
        script.arg(redelivery.attempts).arg(millis(redelivery.after));
        match self.answer(&script, "retrying").await? {
            Answer::Done => Ok(AckOutcome::Confirmed),
            Answer::NotOwner => Ok(AckOutcome::NotOwner),
            Answer::Deleted => Err(BrokerError::new(
                format!("retrying `{}` of `{}`", self.id, self.place.stream),
                "the entry was deleted from the stream before it was handled: is the stream trimmed?",
            )),
        }
    }

    async fn dead_letter(&mut self, _: &Envelope, letter: &DeadLetter) -> Result<AckOutcome, BrokerError> {
        let Some(stream) = &self.place.dead_letter else {
            return Err(BrokerError::new(
                format!("putting a message of `{}` aside", letter.source),
                "the consumer has no stream for dead letters: name one with `.dead_letter(..)`",
            ));
        };
        let mut script = self.script("bury");
        for (name, value) in entry::senders(&self.fields) {
            script.arg(name).arg(value);
        }
        for (name, value) in letter.headers() {
            script.arg(name).arg(value);
        }
        match self.answer(&script, &format!("putting aside in `{stream}` the entry")).await? {
            Answer::Done => Ok(AckOutcome::Confirmed),
            Answer::NotOwner | Answer::Deleted => Ok(AckOutcome::NotOwner),
        }
    }

    async fn give_back(&mut self) -> AckOutcome {
        let mut script = self.script("back");
        // As if it had never been taken.
        script.arg(self.delivered.saturating_sub(1));
        self.outcome(&script).await
    }

    async fn extend(&mut self) -> AckOutcome {
        self.outcome(&self.script("extend")).await
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("stream", &self.stream)
            .field("group", &self.group)
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}

/// Whole milliseconds, not less than the time.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
