//! A consumer that crashes when the test wants it.
//!
//! A Kafka client goes to the address that the broker advertises, past any proxy. So the adapter is wrapped: its connection
//! is cut by taking the whole subscription away from under the engine, and an ack is lost before it gets to it.

use crate::brokers::Line;
use idem_runtime::{
    consume::{
        AckOutcome, Adapter, BrokerError, Capabilities, DeadLetter, Envelope, Holding, Horizon, Plan, Redelivery,
        Redrive, Settle, StartError, Subscription, Taken,
    },
    kafka,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// The adapter under test, on a line that can be cut.
#[derive(Debug)]
pub struct Broken {
    pub(super) topic: kafka::Topic,
    pub(super) wire: Wire,
}

/// A consumer's line.
#[derive(Clone, Debug, Default)]
pub struct Wire(Arc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    cut: AtomicBool,
    lose: AtomicBool,
    changed: Notify,
}

impl Wire {
    fn is_cut(&self) -> bool {
        self.0.cut.load(Ordering::SeqCst)
    }

    fn break_it(&self) {
        self.0.cut.store(true, Ordering::SeqCst);
        self.0.changed.notify_one();
    }

    async fn until_cut(&self) {
        while !self.is_cut() {
            self.0.changed.notified().await;
        }
    }
}

impl Line for Wire {
    async fn cut(&self) {
        self.break_it();
        // Until the group has heard of it: Tansu may forget a member that joins while another one leaves.
        tokio::time::sleep(Duration::from_secs(3)).await;
    }

    async fn lose_next_ack(&self) {
        self.0.lose.store(true, Ordering::SeqCst);
    }
}

impl Adapter for Broken {
    type Subscription = Listening;

    const BROKER: &'static str = kafka::Topic::BROKER;
    const CAPABILITIES: Capabilities = kafka::Topic::CAPABILITIES;

    fn source(&self) -> String {
        self.topic.source()
    }

    async fn start(self, plan: &Plan) -> Result<Listening, StartError> {
        Ok(Listening { reading: Some(self.topic.start(plan).await?), wire: self.wire })
    }
}

impl Redrive for Broken {
    async fn redrive(self, at_most: Option<u64>) -> Result<u64, BrokerError> {
        self.topic.redrive(at_most).await
    }
}

/// The subscription under test.
#[derive(Debug)]
pub struct Listening {
    reading: Option<kafka::Reading>,
    wire: Wire,
}

impl Subscription for Listening {
    type Settle = Sealed;

    fn holding(&self) -> Holding {
        self.reading.as_ref().map_or_else(Holding::default, Subscription::holding)
    }

    fn horizon(&self) -> Option<Horizon> {
        self.reading.as_ref()?.horizon()
    }

    async fn next(&mut self) -> Result<Option<Taken<Sealed>>, BrokerError> {
        if let Some(reading) = &mut self.reading {
            tokio::select! {
                () = self.wire.until_cut() => {}
                taken = reading.next() => {
                    let wire = self.wire.clone();
                    let sealed = |Taken { envelope, settle }| Taken { envelope, settle: Sealed { ticket: settle, wire } };
                    return Ok(taken?.map(sealed));
                }
            }
        }
        if let Some(mut reading) = self.reading.take() {
            reading.finish().await;
        }
        Err(BrokerError::new("consuming", "the test cut the line"))
    }

    async fn hold(&mut self) {
        if let Some(reading) = &mut self.reading {
            reading.hold().await;
        }
        std::future::pending::<()>().await;
    }

    async fn stop(&mut self) {
        if let Some(reading) = &mut self.reading {
            reading.stop().await;
        }
    }

    async fn finish(&mut self) {
        if let Some(reading) = &mut self.reading {
            reading.finish().await;
        }
    }
}

/// A ticket under test.
#[derive(Debug)]
pub struct Sealed {
    ticket: kafka::Ticket,
    wire: Wire,
}

impl Settle for Sealed {
    async fn ack(&mut self) -> AckOutcome {
        if self.wire.0.lose.swap(false, Ordering::SeqCst) {
            self.wire.break_it();
            return AckOutcome::Lost;
        }
        self.ticket.ack().await
    }

    async fn retry(&mut self, envelope: &Envelope, redelivery: &Redelivery) -> Result<AckOutcome, BrokerError> {
        self.ticket.retry(envelope, redelivery).await
    }

    async fn dead_letter(&mut self, envelope: &Envelope, letter: &DeadLetter) -> Result<AckOutcome, BrokerError> {
        self.ticket.dead_letter(envelope, letter).await
    }

    async fn give_back(&mut self) -> AckOutcome {
        self.ticket.give_back().await
    }
}
