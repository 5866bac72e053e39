//! One message: its turn, its attempts, and how it is settled.

use super::{
    adapter::{AckOutcome, BrokerError, Holding, Redelivery, Settle},
    attempts::{AttemptLog, Counted, counted_by},
    current::{self, Notes},
    dead_letter::{DeadLetter, Reason},
    delivery::{Attempt, BrokerId, Delivery, Envelope},
    log,
    settings::{Settings, WhenIgnored, jitter},
};
use crate::{
    error::{Advice, Error, Phase},
    outcome::{Ignored, Outcome, Then},
};
use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use std::{
    any::Any,
    fmt,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};
use tracing::Instrument as _;

/// How often a retry is sent before the message is given back instead.
const RETRY_TRIES: u32 = 3;

/// How far the consumer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Taking,
    /// What runs may end; what waits goes back.
    Stopping,
    /// What runs goes back.
    Deadline,
}

/// A message that was taken, waiting for its turn.
pub(super) struct Job<M, S> {
    pub(super) envelope: Envelope,
    pub(super) settle: S,
    /// The message, or why it could not be decoded.
    pub(super) message: Result<M, String>,
    pub(super) lane: Option<String>,
    pub(super) turn: oneshot::Receiver<()>,
}

/// How a message left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Acked,
    DeadLettered,
    Retried,
    GivenBack,
    /// The ack did not arrive.
    Lost,
}

/// A place that is free again.
pub(super) struct Done {
    pub(super) lane: Option<String>,
    /// Whether its turn had come.
    pub(super) had_turn: bool,
    pub(super) settled: Settled,
}

/// What the handler's answer means for the message.
enum Verdict {
    Done(&'static str),
    Again {
        /// Whether it counts as a failed attempt of the message.
        counts: bool,
        error: String,
    },
    Dead(Reason, String),
}

/// What is the same for all messages of a consumer.
pub(super) struct Desk<'a, F, J> {
    pub(super) handler: &'a F,
    pub(super) judge: &'a J,
    pub(super) settings: &'a Settings,
    pub(super) ordered: bool,
    pub(super) source: &'a str,
    pub(super) attempts: Option<Arc<dyn AttemptLog>>,
    pub(super) holding: Holding,
    pub(super) stage: watch::Receiver<Stage>,
}

/// A message at work: what was taken, and what is known of its attempts.
struct Work<M> {
    delivery: Delivery<M>,
    /// Which attempt this is.
    number: u32,
    first_at: SystemTime,
    taken_at: Instant,
    taken_wall: SystemTime,
    key: Option<String>,
    /// By what the log counts it, once it does.
    counted_by: Option<String>,
}

/// What is known of a message for its last settling.
struct Story<'w> {
    envelope: &'w Envelope,
    number: u32,
    first_at: SystemTime,
    last_at: SystemTime,
    key: Option<&'w str>,
}

impl<F, J> Desk<'_, F, J> {
    /// Takes a message from its turn to its end.
    pub(super) async fn serve<M, S, T, R, E>(&self, job: Job<M, S>) -> Done
    where
        S: Settle,
        F: AsyncFn(&Delivery<M>) -> Result<Outcome<T, R>, Error<E>>,
        J: Fn(&Error<E>) -> Advice,
        E: fmt::Display,
    {
        let Job { mut envelope, mut settle, message, lane, turn } = job;
        let (taken_at, taken_wall) = (Instant::now(), SystemTime::now());
        let turn = self.hold(&mut settle, &envelope.broker_id, self.unless(Stage::Stopping, turn)).await;
        let had_turn = matches!(turn, Some(Ok(())));
        let settled = if !had_turn {
            let why =
                if turn.is_none() { "shutdown before its turn" } else { "the one before it in its lane went back" };
            self.give_back(&mut settle, &envelope.broker_id, why).await
        } else if self.holding.longest.is_some_and(|longest| taken_at.elapsed() > longest / 2) {
            self.give_back(&mut settle, &envelope.broker_id, "it waited too long for its turn").await
        } else {
            let attempt = envelope.attempt;
            let (number, first_at) = (attempt.least(), envelope.first_at.unwrap_or(taken_wall));
            let bury = async |settle: &mut S, envelope: &Envelope, reason, error| {
                let story = Story { envelope, number, first_at, last_at: taken_wall, key: None };
                self.bury(settle, &story, reason, error).await
            };
            match (message, envelope.given_up.take()) {
                (Ok(_), Some(why)) => bury(&mut settle, &envelope, Reason::Exhausted, why).await,
                (Ok(message), None) => {
                    let delivery = Delivery { message, envelope, attempt };
                    let (key, counted_by) = (None, None);
                    let work = Work { delivery, number, first_at, taken_at, taken_wall, key, counted_by };
                    self.attempt(&mut settle, work).await
                }
                (Err(error), _) => bury(&mut settle, &envelope, Reason::Undecodable, error).await,
            }
        };
        Done { lane, had_turn, settled }
    }

    /// Runs the handler until the message is settled.
    async fn attempt<M, S, T, R, E>(&self, settle: &mut S, mut work: Work<M>) -> Settled
    where
        S: Settle,
        F: AsyncFn(&Delivery<M>) -> Result<Outcome<T, R>, Error<E>>,
        J: Fn(&Error<E>) -> Advice,
        E: fmt::Display,
    {
        let mut to_count = self.attempts.is_some() && !work.delivery.attempt.is_exact();
        let (mut waits, mut forgiven) = (0, false);
        let settled = loop {
            let counted = self.count(settle, &mut work, &mut to_count).await;
            // Those before it ended without an answer: it is what ends processes.
            if work.counted_by.is_some() && self.settings.max_attempts.is_some_and(|most| work.number > most) {
                let error = "its attempts did not come to an end: was the process killed?".to_owned();
                break self.bury(settle, &story(&work), Reason::Exhausted, error).await;
            }
            let verdict = match counted {
                Ok(()) => {
                    let handled = self.unless(Stage::Deadline, self.handle(&work.delivery));
                    let handled = self.hold(settle, &work.delivery.envelope.broker_id, handled).await;
                    let Some((verdict, notes)) = handled else {
                        let id = &work.delivery.envelope.broker_id;
                        break self.give_back(settle, id, "the handler did not end before the deadline").await;
                    };
                    work.key = notes.key.or(work.key);
                    match verdict {
                        // Once a delivery: it may also be the message that breaks connections.
                        Verdict::Again { error, .. } if notes.connection_lost && !forgiven => {
                            forgiven = true;
                            Verdict::Again { counts: false, error }
                        }
                        verdict => verdict,
                    }
                }
                Err(error) => Verdict::Again { counts: false, error },
            };
            let id = &work.delivery.envelope.broker_id;
            let (counts, error) = match verdict {
                Verdict::Done(outcome) => break self.ack(settle, id, outcome).await,
                Verdict::Dead(reason, error) => break self.bury(settle, &story(&work), reason, error).await,
                Verdict::Again { counts: true, error }
                    if self.settings.max_attempts.is_some_and(|most| work.number >= most) =>
                {
                    break self.bury(settle, &story(&work), Reason::Exhausted, error).await;
                }
                Verdict::Again { counts, error } => (counts, error),
            };
            waits += 1;
            let step = self.settings.backoff.after(if counts { work.number } else { waits });
            let redelivery = Redelivery {
                after: jitter(step),
                step,
                attempts: if counts { work.number } else { work.number - 1 },
                first_at: work.first_at,
            };
            if !self.waits_in_place(counts, work.taken_at, redelivery.after) {
                break self.retry(settle, &work.delivery.envelope, &redelivery, &error).await;
            }
            let from = log::From { source: self.source, id };
            if counts {
                log::again_in_lane(from, redelivery.after, &error);
            } else {
                log::waiting(from, waits > 1, redelivery.after, &error);
            }
            let pause = self.unless(Stage::Stopping, sleep(redelivery.after));
            if self.hold(settle, id, pause).await.is_none() {
                break self.retry(settle, &work.delivery.envelope, &redelivery, &error).await;
            }
            if counts {
                work.number = work.number.saturating_add(1);
                work.delivery.attempt = counted_on(work.delivery.envelope.attempt, work.number);
                to_count = work.counted_by.is_some();
            }
        };
        if matches!(settled, Settled::Acked | Settled::DeadLettered)
            && let (Some(log), Some(counted_by)) = (&self.attempts, &work.counted_by)
        {
            let from = log::From { source: self.source, id: &work.delivery.envelope.broker_id };
            match timeout(self.settings.settle_timeout, log.end(self.source, counted_by)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => log::count_not_forgotten(from, &error),
                Err(late) => log::count_not_forgotten(from, &late),
            }
        }
        settled
    }

    /// Counts the attempt that begins, where a log does.
    async fn count<M, S: Settle>(&self, settle: &mut S, work: &mut Work<M>, to_count: &mut bool) -> Result<(), String> {
        let Some(log) = self.attempts.as_ref().filter(|_| *to_count) else { return Ok(()) };
        let counted_by = counted_by(&work.delivery.envelope);
        let counting = self.unless(Stage::Deadline, log.begin(self.source, &counted_by, work.number));
        let counting = self.hold(settle, &work.delivery.envelope.broker_id, counting);
        let Counted { attempts, first_at } = match counting.await {
            Some(Ok(counted)) => counted,
            Some(Err(error)) => return Err(format!("the attempt could not be counted: {error}")),
            None => return Err("the attempt was not counted before the deadline".to_owned()),
        };
        *to_count = false;
        work.counted_by = Some(counted_by);
        work.number = attempts.max(work.number);
        work.first_at = first_at.min(work.first_at);
        work.delivery.attempt = Attempt::Exact(work.number);
        Ok(())
    }

    /// One call of the handler: what it means, and what its units noted.
    async fn handle<M, T, R, E>(&self, delivery: &Delivery<M>) -> (Verdict, Notes)
    where
        F: AsyncFn(&Delivery<M>) -> Result<Outcome<T, R>, Error<E>>,
        J: Fn(&Error<E>) -> Advice,
        E: fmt::Display,
    {
        let span = tracing::info_span!(
            target: "idem",
            "delivery",
            delivery.id = %delivery.broker_id(),
            idem.source = self.source,
            attempt = %delivery.attempt(),
        );
        // All that is the application's is inside: also its errors' text, and its judgement.
        let handling = async {
            match (self.handler)(delivery).await {
                Ok(Outcome::First(_)) => Verdict::Done("first"),
                Ok(Outcome::Duplicate(_)) => Verdict::Done("duplicate"),
                Ok(Outcome::Ignored(ignored)) => self.ignored(&ignored),
                Err(error) => match (self.judge)(&error) {
                    Advice::Ack => Verdict::Done("failed"),
                    Advice::DeadLetter => Verdict::Dead(Reason::Permanent, shown(&error)),
                    Advice::RetryLater => Verdict::Again { counts: counts(&error), error: shown(&error) },
                },
            }
        };
        let handling = AssertUnwindSafe(handling).catch_unwind().instrument(span);
        let (handled, notes) = current::with_notes(handling).await;
        let verdict = handled.unwrap_or_else(|panic| Verdict::Again { counts: true, error: said(&*panic) });
        (verdict, notes)
    }

    fn ignored(&self, ignored: &Ignored) -> Verdict {
        let reason = || format!("not called for: {}", ignored.reason);
        match (ignored.then, self.settings.when_ignored) {
            (Then::Retry, _) | (Then::Drop, WhenIgnored::Retry) => Verdict::Again { counts: true, error: reason() },
            (Then::Drop, WhenIgnored::Ack) => Verdict::Done("ignored"),
            (Then::Drop, WhenIgnored::DeadLetter) => Verdict::Dead(Reason::Ignored, reason()),
        }
    }

    /// Whether a message is to be tried again here and not by way of the broker.
    fn waits_in_place(&self, counts: bool, taken_at: Instant, pause: Duration) -> bool {
        let held = taken_at.elapsed().saturating_add(pause);
        let longest = self.holding.longest.map_or(Duration::MAX, |longest| longest / 2);
        let most = match (self.ordered, counts) {
            (true, _) => longest,
            (false, false) => self.settings.patience.min(longest),
            (false, true) => return false,
        };
        held <= most && *self.stage.borrow() == Stage::Taking
    }

    /// `None` when the consumer comes to this stage first.
    async fn unless<O>(&self, stage: Stage, work: impl Future<Output = O>) -> Option<O> {
        let mut now = self.stage.clone();
        let reached = pin!(now.wait_for(|now| *now >= stage));
        match select(pin!(work), reached).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Tells the broker, while something goes on, that the message is still held.
    async fn hold<S: Settle, O>(&self, settle: &mut S, id: &BrokerId, work: impl Future<Output = O>) -> O {
        let Some(lease) = self.holding.lease else { return work.await };
        let extending = async {
            loop {
                sleep((lease / 3).max(Duration::from_millis(1))).await;
                let outcome = settle.extend().await;
                if !outcome.is_settled() {
                    log::not_extended(self.source, id, outcome);
                }
            }
        };
        let (mut work, mut extending) = (pin!(work), pin!(extending));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => {
                let _: Poll<()> = extending.as_mut().poll(context);
                Poll::Pending
            }
        })
        .await
    }

    async fn ack<S: Settle>(&self, settle: &mut S, id: &BrokerId, outcome: &'static str) -> Settled {
        let ack = timeout(self.settings.settle_timeout, settle.ack()).await.unwrap_or(AckOutcome::Lost);
        log::acked(log::From { source: self.source, id }, outcome, ack);
        if ack.is_settled() { Settled::Acked } else { Settled::Lost }
    }

    async fn give_back<S: Settle>(&self, settle: &mut S, id: &BrokerId, why: &str) -> Settled {
        let ack = timeout(self.settings.settle_timeout, settle.give_back()).await.unwrap_or(AckOutcome::Lost);
        log::given_back(log::From { source: self.source, id }, why, ack);
        Settled::GivenBack
    }

    async fn retry<S: Settle>(
        &self,
        settle: &mut S,
        envelope: &Envelope,
        redelivery: &Redelivery,
        error: &str,
    ) -> Settled {
        let from = log::From { source: self.source, id: &envelope.broker_id };
        for tried in 1..=RETRY_TRIES {
            match self.in_time(settle.retry(envelope, redelivery)).await {
                Ok(ack) => {
                    log::retried(from, redelivery, error, ack);
                    return Settled::Retried;
                }
                Err(error) => log::not_settled(from, "retry", &error),
            }
            // The broker may be coming back; at the end of all time there is none to wait for it.
            if tried == RETRY_TRIES || self.unless(Stage::Deadline, sleep(redelivery.after)).await.is_none() {
                break;
            }
        }
        self.give_back(settle, &envelope.broker_id, "it could not be sent again").await
    }

    /// Puts a message aside, or lets it come again when that fails.
    async fn bury<S: Settle>(&self, settle: &mut S, story: &Story<'_>, reason: Reason, error: String) -> Settled {
        let envelope = story.envelope;
        let from = log::From { source: self.source, id: &envelope.broker_id };
        let letter = DeadLetter {
            reason,
            error,
            key: story.key.map(str::to_owned),
            source: self.source.to_owned(),
            broker_id: envelope.broker_id.clone(),
            attempts: story.number,
            first_at: story.first_at,
            last_at: story.last_at,
        };
        match self.in_time(settle.dead_letter(envelope, &letter)).await {
            Ok(ack) => {
                log::dead_letter(from, &letter, ack);
                Settled::DeadLettered
            }
            Err(error) => {
                log::not_settled(from, "dead letter", &error);
                let step = self.settings.backoff.after(story.number);
                // It stays as exhausted as it is: not one attempt more.
                let attempts = story.number.saturating_sub(1);
                let redelivery = Redelivery { after: jitter(step), step, attempts, first_at: story.first_at };
                self.retry(settle, envelope, &redelivery, &letter.error).await
            }
        }
    }

    async fn in_time(
        &self,
        settling: impl Future<Output = Result<AckOutcome, BrokerError>>,
    ) -> Result<AckOutcome, BrokerError> {
        match timeout(self.settings.settle_timeout, settling).await {
            Ok(settled) => settled,
            Err(late) => Err(BrokerError::new("waiting for the broker", late)),
        }
    }
}

fn story<M>(work: &Work<M>) -> Story<'_> {
    Story {
        envelope: &work.delivery.envelope,
        number: work.number,
        first_at: work.first_at,
        last_at: work.taken_wall,
        key: work.key.as_deref(),
    }
}

/// The attempt as the handler sees it, after the engine made more of them in place.
fn counted_on(broker: Attempt, number: u32) -> Attempt {
    match broker {
        Attempt::Exact(_) | Attempt::FlagOnly(false) => Attempt::Exact(number),
        Attempt::AtLeast(_) | Attempt::FlagOnly(true) | Attempt::Unknown => Attempt::AtLeast(number),
    }
}

/// Whether an error is an attempt of the message that failed, and not the store's trouble.
fn counts<E>(error: &Error<E>) -> bool {
    match error {
        Error::Busy(_) | Error::Configuration(_) | Error::CommitUnknown(_) | Error::Key(_) => false,
        Error::Guard(error) => !error.is_retryable(),
        // What no retry cures at the commit (a constraint that is checked there) is about the message.
        Error::Database(error) => error.phase == Phase::Commit && !error.is_retryable(),
        _ => true,
    }
}

/// An error as text, with its causes where its own formatting shows them.
fn shown<E: fmt::Display>(error: &Error<E>) -> String {
    match error {
        Error::Body(error) => format!("{error:#}"),
        error => error.to_string(),
    }
}

/// What a panic said.
pub(super) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("no text"))
}
