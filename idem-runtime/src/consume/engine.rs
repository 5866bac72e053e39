//! The loop: take, serve, stop.

use super::{
    adapter::{Adapter, BrokerError, Horizon, StartError, Subscription, Taken},
    consumer::{Consumer, LaneOf},
    decode::Decode,
    delivery::{Delivery, Envelope},
    lanes::Lanes,
    log,
    settings::Settings,
    slot::{Desk, Done, Job, Settled, Stage, said},
};
use crate::{
    error::{Advice, Error},
    outcome::Outcome,
};
use futures_util::{Stream as _, stream::FuturesUnordered};
use std::{
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// What a consumer did, when it has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Messages that were taken.
    pub taken: u64,
    /// Those that were acked.
    pub acked: u64,
    /// Those that went to the dead letters.
    pub dead_lettered: u64,
    /// Those that were sent to come again later.
    pub retried: u64,
    /// Those that were given back at the end, or for the sake of order.
    pub given_back: u64,
    /// Those whose ack did not arrive: they come again, and are duplicates.
    pub lost: u64,
    /// Those that were not settled when time was up: they come again.
    pub abandoned: u64,
}

impl Summary {
    fn count(&mut self, settled: Settled) {
        *match settled {
            Settled::Acked => &mut self.acked,
            Settled::DeadLettered => &mut self.dead_lettered,
            Settled::Retried => &mut self.retried,
            Settled::GivenBack => &mut self.given_back,
            Settled::Lost => &mut self.lost,
        } += 1;
    }
}

/// Why a consumer ended, other than by its shutdown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It did not start.
    #[error("{0}")]
    Start(#[from] StartError),
    /// The broker is lost. What was held has been finished as far as that was possible; run a new consumer.
    #[error("the consumer of {from} lost its broker: {error}")]
    Broker {
        /// What it consumed.
        from: String,
        /// The client's error.
        #[source]
        error: BrokerError,
        /// What was done until then.
        summary: Summary,
    },
    /// The broker ended the subscription: the queue was deleted, or the consumer was cancelled there.
    #[error("the broker ended the subscription to {from}: is the queue still there?")]
    Ended {
        /// What it consumed.
        from: String,
        /// What was done until then.
        summary: Summary,
    },
}

/// The first of three things to happen.
enum Event<A, B, D = Done> {
    First(A),
    Done(D),
    Last(B),
}

/// Waits for one of two futures or for a message that is settled. An output of a future is given once.
async fn any<A: Future + ?Sized, S: Future<Output = Done>, B: Future>(
    mut first: Pin<&mut A>,
    slots: &mut FuturesUnordered<S>,
    mut last: Pin<&mut B>,
) -> Event<A::Output, B::Output> {
    poll_fn(|context| {
        if let Poll::Ready(output) = first.as_mut().poll(context) {
            return Poll::Ready(Event::First(output));
        }
        if let Poll::Ready(Some(done)) = Pin::new(&mut *slots).poll_next(context) {
            return Poll::Ready(Event::Done(done));
        }
        last.as_mut().poll(context).map(Event::Last)
    })
    .await
}

/// Why no more is taken.
enum End {
    Shutdown,
    Broker(BrokerError),
    Ended,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shutdown => f.write_str("shutdown"),
            Self::Broker(error) => error.fmt(f),
            Self::Ended => f.write_str("the broker ended the subscription"),
        }
    }
}

impl<A: Adapter, M, D: Decode<M>> Consumer<A, M, D> {
    /// Takes messages and has each handled, until the [`shutdown`](Self::shutdown) or until the broker is lost.
    ///
    /// Handlers run at once inside this future, up to the [`concurrency`](Self::concurrency): nothing is spawned, so a
    /// handler may borrow, and need not be `Send` when this future need not be. Where it must be (in `tokio::spawn`), the
    /// closure has to own what it uses: `async move |d| ..`; the compiler does not see that a borrowing one is `Send`.
    ///
    /// # Errors
    /// [`RunError`]. What a handler returns is never one.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: units that run are rolled back, and every message that was not settled comes
    /// again. A [`shutdown`](Self::shutdown) is kinder.
    pub async fn run<T, R, E, F>(self, handler: F) -> Result<Summary, RunError>
    where
        F: AsyncFn(&Delivery<M>) -> Result<Outcome<T, R>, Error<E>>,
        E: fmt::Display,
    {
        self.run_judged(handler, |error: &Error<E>| error.advice()).await
    }

    /// As [`run`](Self::run), with a judgement of the application's own on errors, for one that knows which of the body's
    /// errors no retry cures.
    ///
    /// ```
    /// # use idem_runtime::{Error, consume::{Adapter, Consumer, Json}, Outcome};
    /// # #[derive(Debug, thiserror::Error)] #[error("")] enum StockError { UnknownSku, Away }
    /// # async fn on_deduct(_: &str) -> Result<Outcome<()>, Error<StockError>> { unimplemented!() }
    /// # async fn with<A: Adapter>(consumer: Consumer<A, String>) -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_runtime::Advice;
    ///
    /// consumer
    ///     .run_judged(
    ///         async |d| on_deduct(d.message()).await,
    ///         |error| match error {
    ///             Error::Body(StockError::UnknownSku) => Advice::DeadLetter,
    ///             error => error.advice(),
    ///         },
    ///     )
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_judged<T, R, E, F, J>(self, handler: F, judge: J) -> Result<Summary, RunError>
    where
        F: AsyncFn(&Delivery<M>) -> Result<Outcome<T, R>, Error<E>>,
        J: Fn(&Error<E>) -> Advice,
        E: fmt::Display,
    {
        let plan = self.plan();
        let source = self.adapter.source();
        let Self { adapter, settings, decode, lane_of, attempts, retention, mut shutdown } = self;
        let subscription = adapter.start(&plan).await?;
        let horizon = subscription.horizon();
        if let (Some(retention), Some(horizon)) = (retention, &horizon) {
            check_retention(&source, retention, horizon)?;
        }
        log::started(&source, A::BROKER, horizon.as_ref());

        let (advance, stage) = watch::channel(Stage::Taking);
        let desk = Desk {
            handler: &handler,
            judge: &judge,
            settings: &settings,
            ordered: plan.ordered,
            source: &source,
            attempts,
            holding: subscription.holding(),
            stage,
        };
        let mut floor =
            Floor { slots: FuturesUnordered::new(), lanes: Lanes::new(plan.concurrency), summary: Summary::default() };
        let mut subscription = subscription;
        let end = loop {
            let taken = match floor.next(&mut subscription, shutdown.as_mut(), plan.in_flight).await {
                Event::First(()) => break End::Shutdown,
                // A place became free.
                Event::Done(()) => continue,
                Event::Last(Ok(Some(taken))) => taken,
                Event::Last(Ok(None)) => break End::Ended,
                Event::Last(Err(error)) => break End::Broker(error),
            };
            let Taken { envelope, settle } = taken;
            let (message, lane) = match read(&decode, lane_of.as_ref(), &envelope) {
                Ok((message, lane)) => (Ok(message), lane),
                Err(error) => (Err(error), None),
            };
            let turn = floor.lanes.admit(lane.as_deref());
            floor.summary.taken += 1;
            floor.slots.push(desk.serve(Job { envelope, settle, message, lane, turn }));
        };
        log::stopping(&source, floor.slots.len(), &end);
        let summary = floor.close(&mut subscription, &advance, &settings).await;
        if summary.abandoned > 0 {
            log::abandoned(&source, summary.abandoned);
        }
        match end {
            End::Shutdown => Ok(summary),
            End::Broker(error) => Err(RunError::Broker { from: source, error, summary }),
            End::Ended => Err(RunError::Ended { from: source, summary }),
        }
    }
}

/// Refuses a store that forgets before the broker does.
fn check_retention(source: &str, retention: Duration, horizon: &Horizon) -> Result<(), StartError> {
    if retention >= horizon.longest {
        return Ok(());
    }
    let reason = format!(
        "the store keeps records for {retention:?}, and a message can come again after {:?}: {}. Raise the store's \
         retention, or lower the attempts or the backoff",
        horizon.longest, horizon.because
    );
    Err(StartError::Unsafe { from: source.to_owned(), reason })
}

/// The message of an envelope and its lane. Code of the application may panic; that is its answer then.
fn read<M, D: Decode<M>>(
    decode: &D,
    lane_of: Option<&LaneOf<M>>,
    envelope: &Envelope,
) -> Result<(M, Option<String>), String> {
    let reading = || {
        let message = decode.decode(envelope).map_err(|error| error.to_string())?;
        let lane = lane_of.map(|lane_of| lane_of(&message));
        Ok((message, lane))
    };
    catch_unwind(AssertUnwindSafe(reading)).unwrap_or_else(|panic| Err(said(&*panic)))
}

/// The messages that are held.
struct Floor<F> {
    slots: FuturesUnordered<F>,
    lanes: Lanes,
    summary: Summary,
}

impl<F: Future<Output = Done>> Floor<F> {
    /// Takes the next message while there is room, and else waits for room. Keeps the future of the subscription's
    /// `next` until it is ready, whatever is settled meanwhile.
    async fn next<S: Subscription>(
        &mut self,
        subscription: &mut S,
        mut shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        places: usize,
    ) -> Event<(), Result<Option<Taken<S::Settle>>, BrokerError>, ()> {
        if self.slots.len() >= places {
            return match any(shutdown, &mut self.slots, pin!(subscription.hold())).await {
                Event::Done(done) => {
                    self.leave(&done);
                    Event::Done(())
                }
                Event::First(()) => Event::First(()),
                // It never ends; if it does, there is nothing to be said but to go on.
                Event::Last(()) => Event::Done(()),
            };
        }
        let mut next = pin!(subscription.next());
        loop {
            match any(shutdown.as_mut(), &mut self.slots, next.as_mut()).await {
                Event::Done(done) => self.leave(&done),
                Event::First(()) => return Event::First(()),
                Event::Last(taken) => return Event::Last(taken),
            }
        }
    }

    fn leave(&mut self, done: &Done) {
        self.summary.count(done.settled);
        if done.had_turn {
            let returned = matches!(done.settled, Settled::Retried | Settled::GivenBack);
            self.lanes.leave(done.lane.as_deref(), returned);
        }
    }

    /// Finishes what is held, or gives it back, within the grace.
    async fn close<S: Subscription>(
        mut self,
        subscription: &mut S,
        advance: &watch::Sender<Stage>,
        settings: &Settings,
    ) -> Summary {
        advance.send_replace(Stage::Stopping);
        // The grace, and after it the time for giving back.
        let mut time = pin!(async {
            sleep(settings.grace).await;
            advance.send_replace(Stage::Deadline);
            sleep(settings.settle_timeout).await;
        });
        let stopped = {
            let mut stop = pin!(timeout(settings.settle_timeout, subscription.stop()));
            loop {
                match any(time.as_mut(), &mut self.slots, stop.as_mut()).await {
                    Event::Done(done) => self.leave(&done),
                    Event::First(()) => break false,
                    Event::Last(_) => break true,
                }
            }
        };
        if stopped {
            let mut hold = pin!(subscription.hold());
            while !self.slots.is_empty() {
                match any(time.as_mut(), &mut self.slots, hold.as_mut()).await {
                    Event::Done(done) => self.leave(&done),
                    Event::First(()) | Event::Last(()) => break,
                }
            }
        }
        self.summary.abandoned = self.slots.len() as u64;
        drop(self.slots);
        let _ = timeout(settings.settle_timeout, subscription.finish()).await;
        self.summary
    }
}
