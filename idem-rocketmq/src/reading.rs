//! From the client's listeners, which block their threads, to the engine, which asks.

use crate::{
    client::Client,
    message,
    settle::{Place, Ticket, Verdict},
};
use idem_runtime::consume::{BrokerError, Holding, Horizon, Subscription, Taken};
use rocketmq_client_rust::{
    ClientResult, ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus, ConsumeOrderlyContext, ConsumeOrderlyStatus,
    DefaultMQPushConsumer, MessageListenerConcurrently, MessageListenerOrderly,
};
use rocketmq_model::common::message::message_ext::MessageExt;
use std::{
    fmt,
    sync::{Arc, Weak, mpsc},
    time::Duration,
};
use tokio::task::JoinHandle;

/// A message whose listener waits.
pub(crate) struct Handed {
    message: MessageExt,
    tell: mpsc::Sender<Verdict>,
    waits: Weak<()>,
}

/// The client's listener: hands a message over, and waits with its thread until it is settled.
pub(crate) struct Door {
    pub(crate) to_engine: tokio::sync::mpsc::Sender<Handed>,
    pub(crate) consume_timeout: Duration,
}

impl Door {
    fn pass(&self, messages: &[&MessageExt]) -> Verdict {
        let [message] = messages else { return Verdict::Again(Duration::ZERO) };
        let (tell, told) = mpsc::channel();
        let waits = Arc::new(());
        let handed = Handed { message: (*message).clone(), tell, waits: Arc::downgrade(&waits) };
        // Nobody takes any more, or nobody settled it, or not in time: it comes again.
        let given = self.to_engine.blocking_send(handed).ok();
        let verdict = given.and_then(|()| told.recv_timeout(self.consume_timeout).ok());
        verdict.unwrap_or(Verdict::Again(Duration::ZERO))
    }
}

impl MessageListenerConcurrently for Door {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        Ok(match self.pass(messages) {
            Verdict::Consumed => ConsumeConcurrentlyStatus::ConsumeSuccess,
            Verdict::Again(_) => ConsumeConcurrentlyStatus::ReconsumeLater,
        })
    }
}

impl MessageListenerOrderly for Door {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        context: &mut ConsumeOrderlyContext,
    ) -> ClientResult<ConsumeOrderlyStatus> {
        Ok(match self.pass(messages) {
            Verdict::Consumed => ConsumeOrderlyStatus::Success,
            Verdict::Again(after) => {
                let millis = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
                context.set_suspend_current_queue_time_millis(millis);
                ConsumeOrderlyStatus::SuspendCurrentQueueAMoment
            }
        })
    }
}

/// A topic that is being consumed.
pub struct Reading {
    pub(crate) from_client: tokio::sync::mpsc::Receiver<Handed>,
    pub(crate) consumer: Option<DefaultMQPushConsumer>,
    pub(crate) ending: Option<JoinHandle<()>>,
    pub(crate) client: Option<Client>,
    pub(crate) place: Arc<Place>,
    pub(crate) horizon: Horizon,
    pub(crate) consume_timeout: Duration,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("topic", &self.place.topic).finish_non_exhaustive()
    }
}

impl Subscription for Reading {
    type Settle = Ticket;

    fn holding(&self) -> Holding {
        Holding { lease: None, longest: Some(self.consume_timeout) }
    }

    fn horizon(&self) -> Option<Horizon> {
        Some(self.horizon.clone())
    }

    async fn next(&mut self) -> Result<Option<Taken<Ticket>>, BrokerError> {
        loop {
            let Some(Handed { message, tell, waits }) = self.from_client.recv().await else { return Ok(None) };
            // It comes again by itself.
            if waits.strong_count() == 0 {
                continue;
            }
            let envelope = message::envelope(&message);
            return Ok(Some(Taken { envelope, settle: Ticket { tell, message, place: self.place.clone() } }));
        }
    }

    async fn stop(&mut self) {
        // The client gives its listeners nothing more from now on, and waits for those that have something.
        if let Some(mut consumer) = self.consumer.take() {
            self.ending = Some(tokio::spawn(async move { Box::pin(consumer.shutdown()).await }));
        }
        self.from_client.close();
        while self.from_client.recv().await.is_some() {}
    }

    async fn finish(&mut self) {
        if let Some(ending) = self.ending.take() {
            let _ = ending.await;
        }
        if let Some(client) = self.client.take() {
            client.close();
        }
    }
}
