//! Real brokers, for the conformance suite of adapters and for the soak: what both need of one, and each broker.

#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "what fails here fails a test"
)]

mod messages;
pub mod nats;
pub mod rabbitmq;

pub use messages::{Credit, Failed, credit_of, fated};

use idem_runtime::{
    Error, Outcome,
    consume::{Adapter, Backoff, Consumer, Delivery, Redrive, RunError, Summary},
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Where a harness gets its broker from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The one that runs on this machine.
    Shared,
    /// One of the test's own, that may be stopped.
    Own,
    /// One of the test's own that takes a delivery back after [`Harness::LEASE`], where the shared one does not.
    OwnWithLease,
}

#[expect(async_fn_in_trait, reason = "nobody else implements it, and nothing is spawned")]
/// A queue of the test's own on a real server, with dead letters behind it.
pub trait Harness: Sized {
    /// The adapter under test.
    type Adapter: Adapter + Redrive;
    /// The connection of one consumer.
    type Line: Line;

    /// How long the broker lets a delivery be held, on a server [`Server::OwnWithLease`].
    const LEASE: Duration;

    /// A new queue.
    async fn new(server: Server) -> Self;

    /// Where the queue is, for [`attach`](Self::attach) in another process.
    fn described(&self) -> String;

    /// The queue of another process. It cannot stop the server.
    async fn attach(described: &str) -> Self;

    /// A consumer over a connection of its own, with its dead letters. The suite sets the rest.
    async fn consumer(&self) -> (Consumer<Self::Adapter, Credit>, Self::Line);

    /// Sends a message, and returns when the broker has it. Each gets ids of its own from the broker.
    async fn send(&self, payload: &str);

    /// Sends many.
    async fn send_all(&self, payloads: &[String]) {
        for payload in payloads {
            self.send(payload).await;
        }
    }

    /// Takes the dead letters: payloads, and their headers.
    async fn dead_letters(&self) -> Vec<(String, Vec<(String, String)>)>;

    /// How many messages are left for the consumers, when none is running.
    async fn left(&self) -> u64;

    /// Stops the server in an orderly way.
    async fn stop(&mut self);

    /// Kills the server.
    async fn kill(&mut self);

    /// Starts it again, and returns when it takes connections.
    async fn start(&mut self);

    /// Deletes the queue, and ends a server of its own.
    async fn close(self);
}

/// The connection of one consumer.
#[expect(async_fn_in_trait, reason = "as above")]
pub trait Line {
    /// Breaks it, as a crash of the consumer's process does.
    async fn cut(&self);

    /// Breaks it when the next ack is sent, before the broker hears of it.
    async fn lose_next_ack(&self);
}

/// What happened, for a test to wait for.
#[derive(Clone, Debug, Default)]
pub struct Events {
    seen: Arc<Mutex<Vec<String>>>,
    changed: Arc<Notify>,
}

impl Events {
    /// Notes an event.
    pub fn note(&self, event: impl Into<String>) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(event.into());
        self.changed.notify_waiters();
    }

    /// How many of an event there were.
    pub fn count(&self, event: &str) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|seen| *seen == event).count()
    }

    /// Waits for so many of an event.
    pub fn until(&self, event: &'static str, times: usize) -> impl Future<Output = ()> + Send + 'static {
        let events = self.clone();
        async move {
            loop {
                let mut changed = std::pin::pin!(events.changed.notified());
                changed.as_mut().enable();
                if events.count(event) >= times {
                    return;
                }
                changed.await;
            }
        }
    }

    /// Notes an outcome by its word.
    pub fn outcome<T, R, E>(&self, outcome: Result<Outcome<T, R>, Error<E>>) -> Result<Outcome<T, R>, Error<E>> {
        self.note(match &outcome {
            Ok(outcome) => outcome.label(),
            Err(error) => error.label(),
        });
        outcome
    }
}

/// The suite's settings: quick retries, three attempts.
pub fn quick<A: Adapter>(consumer: Consumer<A, Credit>) -> Consumer<A, Credit> {
    consumer.concurrency(4).retry(Backoff::steps([Duration::from_millis(200)])).max_attempts(3)
}

/// Why a consumer does not start.
pub async fn refusal<A: Adapter>(consumer: Consumer<A, Credit>) -> String {
    let handler = async |_: &Delivery<Credit>| -> Result<Outcome<()>, Error<Failed>> { unreachable!() };
    match consumer.shutdown(std::future::ready(())).run(handler).await {
        Err(RunError::Start(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Runs consumers, one after the other when the broker is lost, until so many of an event were seen.
pub async fn run_until<H, T, R, E, F>(
    harness: &H,
    events: &Events,
    event: &'static str,
    times: usize,
    handler: F,
) -> Summary
where
    H: Harness,
    F: AsyncFn(&Delivery<Credit>) -> Result<Outcome<T, R>, Error<E>>,
    E: fmt::Display,
{
    loop {
        let (consumer, _line) = harness.consumer().await;
        let ran = quick(consumer).shutdown(events.until(event, times)).run(async |d| handler(d).await).await;
        match ran {
            Ok(summary) => return summary,
            Err(RunError::Broker { .. } | RunError::Ended { .. }) => {}
            Err(error @ RunError::Start(_)) => {
                // The broker may still be on its way back.
                events.note(format!("start: {error}"));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
