use super::{
    message,
    settle::{Place, Ticket, retry_queue},
};
use crate::consume::{Adapter, BrokerError, Capabilities, Holding, Horizon, Plan, StartError, Subscription, Taken};
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::{
    Channel,
    options::{
        BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions, ConfirmSelectOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable},
};
use std::{sync::Arc, time::Duration};

/// RabbitMQ 4's own default.
const DELIVERY_LIMIT: u32 = 20;

/// A queue to be consumed.
#[derive(Debug)]
pub struct Queue {
    channel: Channel,
    name: String,
    pub(super) dead_letter: Option<String>,
    pub(super) declares: Declares,
    pub(super) delivery_limit: u32,
    pub(super) prefetch: Option<u16>,
    pub(super) consumer_timeout: Duration,
}

/// Which queues are declared and not only looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declares {
    All,
    /// All but the queue itself.
    Ours,
    Nothing,
}

impl Queue {
    pub(super) fn new(channel: Channel, queue: String) -> Self {
        Self {
            channel,
            name: queue,
            dead_letter: None,
            declares: Declares::Ours,
            delivery_limit: DELIVERY_LIMIT,
            prefetch: None,
            consumer_timeout: Duration::from_mins(30),
        }
    }

    pub(super) fn place(self) -> Place {
        Place { channel: self.channel, queue: self.name, dead_letter: self.dead_letter }
    }

    /// How many deliveries may be on the way.
    fn prefetch_for(&self, plan: &Plan) -> Result<u16, StartError> {
        let wanted = u16::try_from(plan.in_flight).ok();
        match self.prefetch {
            Some(prefetch) if usize::from(prefetch) < plan.concurrency => Err(self.unsafe_because(format!(
                "a prefetch of {prefetch} (0 is no bound) does not feed {} handlers; leave `.prefetch(..)` out, or \
                 lower `.concurrency(..)`",
                plan.concurrency
            ))),
            Some(prefetch) => Ok(prefetch),
            None => wanted.ok_or_else(|| {
                self.unsafe_because(format!(
                    "RabbitMQ counts at most {} deliveries on the way, and {} were asked for: lower `.concurrency(..)` \
                     and `.backlog(..)`",
                    u16::MAX,
                    plan.in_flight
                ))
            }),
        }
    }

    fn unsafe_because(&self, reason: impl Into<String>) -> StartError {
        StartError::Unsafe { from: self.source(), reason: reason.into() }
    }

    /// Declares a queue, or looks for it.
    async fn see_to(&self, queue: &str, arguments: Option<FieldTable>) -> Result<(), StartError> {
        let passive = arguments.is_none();
        let options = QueueDeclareOptions { passive, durable: true, ..QueueDeclareOptions::default() };
        let declared = self.channel.queue_declare(queue.into(), options, arguments.unwrap_or_default()).await;
        let Err(error) = declared else { return Ok(()) };
        // A refusal is an answer to us; all else is trouble on the way.
        if !matches!(error.kind(), lapin::ErrorKind::ProtocolError(_)) {
            return Err(BrokerError::new(format!("looking for the queue `{queue}`"), error).into());
        }
        Err(self.unsafe_because(if passive {
            format!("the queue `{queue}` cannot be used ({error}): create it, or let the consumer `.declare()` it")
        } else {
            format!(
                "the queue `{queue}` cannot be declared ({error}): if it exists with other arguments, keep it with \
                 `.declare_nothing()`, or delete it"
            )
        }))
    }

    async fn see_to_all(&self, plan: &Plan) -> Result<(), StartError> {
        let ours = self.declares != Declares::Nothing;
        if let Some(dead_letter) = &self.dead_letter {
            self.see_to(dead_letter, ours.then(durable)).await?;
        }
        let own = (self.declares == Declares::All).then(|| {
            let mut arguments = durable();
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(self.delivery_limit.into()));
            if let Some(dead_letter) = &self.dead_letter {
                comes_out_at(&mut arguments, dead_letter);
            }
            if plan.ordered {
                arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
            }
            arguments
        });
        self.see_to(&self.name, own).await?;
        for step in &plan.steps {
            let arguments = ours.then(|| {
                let mut arguments = durable();
                let millis = i64::try_from(step.as_millis()).unwrap_or(i64::MAX);
                arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
                comes_out_at(&mut arguments, &self.name);
                arguments
            });
            self.see_to(&retry_queue(&self.name, *step), arguments).await?;
        }
        Ok(())
    }
}

/// The arguments of a quorum queue.
fn durable() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments
}

/// What leaves a queue by itself goes to that one, and leaves only when it is there. (By default RabbitMQ hands it over
/// without asking whether it arrived.)
fn comes_out_at(arguments: &mut FieldTable, queue: &str) {
    let text = |text: &str| AMQPValue::LongString(text.into());
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(queue));
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments.insert("x-overflow".into(), text("reject-publish"));
}

impl Adapter for Queue {
    type Subscription = Reading;

    const BROKER: &'static str = "RabbitMQ";
    const CAPABILITIES: Capabilities = Capabilities {
        native_delay: false,
        native_dead_letter: true,
        // A tag belongs to its channel, and the client refuses one of a channel that is gone.
        fenced_ack: true,
        ordered: true,
        // On quorum queues only.
        exact_attempts: false,
    };

    fn source(&self) -> String {
        self.name.clone()
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        let prefetch = self.prefetch_for(plan)?;
        if plan.max_attempts.is_some() && self.dead_letter.is_none() {
            return Err(self.unsafe_because(
                "messages that fail too often have nowhere to go: name a queue with `.dead_letter(..)`, or try for ever \
                 with `.unlimited_attempts()`",
            ));
        }
        if self.dead_letter.as_ref() == Some(&self.name) {
            return Err(self.unsafe_because("its dead letters go to the queue itself: name another queue"));
        }
        self.see_to_all(plan).await?;
        let asking = |doing: &str| {
            let doing = format!("{doing} `{}`", self.name);
            move |error: lapin::Error| BrokerError::new(doing, error)
        };
        let confirms = self.channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirms.map_err(asking("asking for confirms on the channel of"))?;
        let qos = self.channel.basic_qos(prefetch, BasicQosOptions::default()).await;
        qos.map_err(asking("setting the prefetch for"))?;
        let consumer = self.channel.basic_consume(
            self.name.as_str().into(),
            "".into(),
            // Without `no_ack`: RabbitMQ forgets a message only after our ack.
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = consumer.await.map_err(asking("consuming"))?;
        let horizon = horizon(plan, self.consumer_timeout);
        let consumer_timeout = self.consumer_timeout;
        Ok(Reading { consumer, horizon, consumer_timeout, place: Arc::new(self.place()) })
    }
}

/// A message can come again after each delivery was held for as long as RabbitMQ lets it, and each pause was waited for.
fn horizon(plan: &Plan, consumer_timeout: Duration) -> Horizon {
    if let (Some(attempts), Some(backoff)) = (plan.max_attempts, plan.longest_backoff()) {
        return Horizon {
            longest: consumer_timeout.saturating_mul(attempts).saturating_add(backoff),
            because: format!(
                "{attempts} deliveries of at most {consumer_timeout:?} each (consumer_timeout), and {backoff:?} of pauses \
                 between them"
            ),
        };
    }
    let step = plan.steps.last().copied().unwrap_or_default();
    Horizon {
        longest: consumer_timeout.saturating_mul(2).saturating_add(step),
        because: format!(
            "two deliveries of at most {consumer_timeout:?} each (consumer_timeout), and {step:?} between them; attempts \
             have no limit, and each after the COMMIT needs another ack to be lost"
        ),
    }
}

/// A queue that is being consumed.
#[derive(Debug)]
pub struct Reading {
    consumer: lapin::Consumer,
    place: Arc<Place>,
    horizon: Horizon,
    consumer_timeout: Duration,
}

impl Subscription for Reading {
    type Settle = Ticket;

    fn holding(&self) -> Holding {
        Holding { lease: None, longest: Some(self.consumer_timeout) }
    }

    fn horizon(&self) -> Option<Horizon> {
        Some(self.horizon.clone())
    }

    async fn next(&mut self) -> Result<Option<Taken<Ticket>>, BrokerError> {
        loop {
            match self.consumer.next().await {
                // Of before a break: RabbitMQ delivers it again.
                Some(Ok(delivery)) if !delivery.acker.usable() => {}
                Some(Ok(mut delivery)) => {
                    let envelope = message::envelope(&self.place.queue, &mut delivery);
                    let (acker, properties) = (delivery.acker, delivery.properties);
                    return Ok(Some(Taken {
                        envelope,
                        settle: Ticket { acker, properties, place: self.place.clone() },
                    }));
                }
                Some(Err(error)) => {
                    let recovered = self.place.channel.wait_for_recovery(error).await;
                    recovered.map_err(|error| BrokerError::new(format!("consuming `{}`", self.place.queue), error))?;
                }
                None => return Ok(None),
            }
        }
    }

    async fn stop(&mut self) {
        // On a channel that is gone there is nothing to stop, and the stream may have no end.
        let _ = self.place.channel.basic_cancel(self.consumer.tag(), BasicCancelOptions::default()).await;
        while let Some(Some(delivery)) = self.consumer.next().now_or_never() {
            if let Ok(delivery) = delivery {
                let _ = delivery.acker.reject(BasicRejectOptions { requeue: true }).await;
            }
        }
    }

    async fn finish(&mut self) {
        // RabbitMQ takes back what was not settled.
        let _ = self.place.channel.close(200, "done".into()).await;
    }
}
