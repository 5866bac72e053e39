//! What an adapter implements, and what the engine tells it.

use super::{
    dead_letter::DeadLetter,
    delivery::{Attempt, Envelope},
};
use std::{
    fmt,
    future::{pending, ready},
    time::{Duration, SystemTime},
};

/// What a broker can do by itself. For people and for the docs; the engine works with any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
pub struct Capabilities {
    /// It delivers a message again after a time of our choice.
    pub native_delay: bool,
    /// It has dead-letter queues of its own.
    pub native_dead_letter: bool,
    /// It refuses an ack of a delivery that has been given to somebody else since.
    pub fenced_ack: bool,
    /// It can keep the order of the messages of one key.
    pub ordered: bool,
    /// It counts deliveries exactly, those that a crash ended included.
    pub exact_attempts: bool,
}

/// What became of an ack.
///
/// None of them says that no other consumer has the message by now: on most brokers a late ack succeeds all the same.
/// The claim in the database is the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AckOutcome {
    /// The broker answered that it has it.
    Confirmed,
    /// It was handed to a connection that is up. The broker does not answer acks.
    Sent,
    /// The broker refused it: the delivery belongs to another consumer by now, or to nobody.
    NotOwner,
    /// The connection that the delivery came through is gone, or nobody answered. The message will come again.
    Lost,
}

impl AckOutcome {
    /// Whether the message is dealt with as far as can be known here.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Confirmed | Self::Sent)
    }

    /// The word in logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Sent => "sent",
            Self::NotOwner => "not-owner",
            Self::Lost => "lost",
        }
    }
}

/// How the message is to come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redelivery {
    /// After how long: the step of the backoff, moved a little so that messages that failed together come apart.
    pub after: Duration,
    /// The step of the backoff itself, one of [`Plan::steps`], for brokers on which every delay needs a queue.
    pub step: Duration,
    /// How many deliveries have counted so far: the next one is `attempts + 1`. Not more than before when this one does
    /// not count (the store was down). An adapter that publishes a copy carries it in the header [`ATTEMPTS`].
    pub attempts: u32,
    /// When the message came for the first time. An adapter that publishes a copy carries it in the header [`SINCE`].
    pub first_at: SystemTime,
}

/// The header in which copies carry how many deliveries have counted, as a decimal number.
pub const ATTEMPTS: &str = "idem-attempts";
/// The header in which copies carry when the message came first, in milliseconds since the Unix epoch.
pub const SINCE: &str = "idem-since";

impl Redelivery {
    /// The values of the headers [`ATTEMPTS`] and [`SINCE`].
    #[must_use]
    pub fn headers(&self) -> [(&'static str, String); 2] {
        let since = self.first_at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());
        [(ATTEMPTS, self.attempts.to_string()), (SINCE, since.to_string())]
    }
}

/// Reads the value of the header [`ATTEMPTS`]: how many deliveries have counted. 0 when it is no number.
#[must_use]
pub fn attempts_in(header: &[u8]) -> u32 {
    std::str::from_utf8(header).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Reads the value of the header [`SINCE`].
#[must_use]
pub fn since_in(header: &[u8]) -> Option<SystemTime> {
    let millis = std::str::from_utf8(header).ok()?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// What the consumer is set to, for an adapter to set its subscription up by and to refuse what is unsafe.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// How many handlers run at once.
    pub concurrency: usize,
    /// How many messages are held at once: those in handlers and those that wait in a lane.
    pub in_flight: usize,
    /// After how many failed attempts a message goes to the dead letters; `None` when never.
    pub max_attempts: Option<u32>,
    /// The delays of the backoff, each once, shortest first.
    pub steps: Vec<Duration>,
    /// Whether messages of one key are handled one after the other, in order.
    pub ordered: bool,
    /// How long a message is held and tried again in place while the store is away.
    pub patience: Duration,
    /// How long running handlers may go on after the shutdown.
    pub grace: Duration,
}

impl Plan {
    /// The longest that the backoff can last: the sum over all attempts. `None` when the attempts have no limit.
    #[must_use]
    pub fn longest_backoff(&self) -> Option<Duration> {
        let last = self.steps.last().copied().unwrap_or_default();
        let retries = self.max_attempts?.saturating_sub(1);
        let steps = u32::try_from(self.steps.len()).unwrap_or(u32::MAX).min(retries);
        let climbing: Duration =
            self.steps.iter().take(steps as usize).fold(Duration::ZERO, |sum, step| sum.saturating_add(*step));
        Some(climbing.saturating_add(last.saturating_mul(retries - steps)))
    }
}

/// The longest time after which the broker can still deliver a message again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// How long. A record must be kept for longer.
    pub longest: Duration,
    /// How it was computed, for people.
    pub because: String,
}

/// A failure of the broker, or on the way to it.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct BrokerError {
    /// What was tried.
    doing: String,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl BrokerError {
    /// What was tried ("publishing to `deduct.dlq`"), and the client's error.
    pub fn new(doing: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { doing: doing.into(), source: source.into() }
    }
}

/// Why a consumer does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The set-up would lose messages or effects.
    #[error("this consumer of {from} is not safe, so it does not start: {reason}")]
    Unsafe {
        /// What it would consume.
        from: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The broker does not answer, or refuses.
    #[error("{0}")]
    Broker(#[from] BrokerError),
}

/// How long a delivery can be held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The broker gives the message to somebody else after this time, unless it hears [`Settle::extend`], which the
    /// engine calls every third of it. `None` where nothing runs out.
    pub lease: Option<Duration>,
    /// The broker takes the message, or closes the channel, after this time whatever it hears. `None` where it does
    /// not. The engine then waits in place for at most half of it.
    pub longest: Option<Duration>,
}

/// A broker's queue, topic or stream as it is to be consumed: what an adapter starts from.
pub trait Adapter: Sized + Send {
    /// A running subscription.
    type Subscription: Subscription;

    /// The broker's name, for logs.
    const BROKER: &'static str;
    /// What the broker can do.
    const CAPABILITIES: Capabilities;

    /// What is consumed, for people and as the scope of an [`AttemptLog`](super::AttemptLog): a queue's name, or a
    /// topic's and the group's.
    fn source(&self) -> String;

    /// Checks the set-up and subscribes. Nothing is taken yet.
    ///
    /// # Errors
    /// [`StartError::Unsafe`] for a set-up that would lose messages, with the reason and what to do: an ack without
    /// our doing, finite attempts without a dead-letter target, a prefetch smaller than the concurrency, a queue that
    /// is missing.
    fn start(self, plan: &Plan) -> impl Future<Output = Result<Self::Subscription, StartError>> + Send;
}

/// A message that was taken: what it is, and the means to settle it.
#[derive(Debug)]
pub struct Taken<S> {
    /// What it is.
    pub envelope: Envelope,
    /// How it is settled.
    pub settle: S,
}

/// A running subscription.
pub trait Subscription: Send {
    /// How one message is settled.
    type Settle: Settle;

    /// How long a delivery can be held.
    fn holding(&self) -> Holding {
        Holding::default()
    }

    /// The longest time after which a message can come again, from the live configuration. `None` when it is not known.
    fn horizon(&self) -> Option<Horizon> {
        None
    }

    /// Waits for the next message. `Ok(None)` when the broker has ended the subscription.
    ///
    /// The engine asks only when it has room, and keeps the future until it is ready, but for the shutdown.
    ///
    /// # Errors
    /// When the connection is lost and does not come back by itself; [`Consumer::run`](super::Consumer::run) then ends
    /// with it.
    ///
    /// # Cancel safety
    /// It must be: a message that the dropped future had taken comes with the next call, or again from the broker.
    fn next(&mut self) -> impl Future<Output = Result<Option<Taken<Self::Settle>>, BrokerError>> + Send;

    /// Polled in place of [`next`](Self::next) while the engine has no room: for clients that must go on talking to the
    /// broker (a Kafka client that pauses and polls). Never ends, and may be dropped at any await.
    fn hold(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Stops taking: the broker sends nothing more, and what it sent and was not handed out goes back. Messages that
    /// were handed out must still be settled after it.
    fn stop(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Called last, when everything that was handed out is settled or given up.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// How one message is settled. Exactly one of [`ack`](Self::ack), [`retry`](Self::retry),
/// [`dead_letter`](Self::dead_letter) and [`give_back`](Self::give_back) succeeds; another is tried after one that
/// failed.
///
/// A message that is dropped without any must be delivered again, at the latest when the subscription ends.
///
/// # Cancel safety
/// Every future may be dropped at any await. Then the message may come again, and must not be lost.
pub trait Settle: Send {
    /// The message is dealt with.
    fn ack(&mut self) -> impl Future<Output = AckOutcome> + Send;

    /// The message is to come again later. The message that is here is acked only after the broker has the other one
    /// for sure.
    ///
    /// # Errors
    /// When it is not sure that it will come again by what was done here. The engine tries again and then gives it
    /// back.
    fn retry(
        &mut self,
        envelope: &Envelope,
        redelivery: &Redelivery,
    ) -> impl Future<Output = Result<AckOutcome, BrokerError>> + Send;

    /// The message goes to the dead letters, with [`DeadLetter::headers`], and is acked only after the broker has it there
    /// for sure.
    ///
    /// # Errors
    /// When it is not sure that it is there. The engine then lets the message come again.
    fn dead_letter(
        &mut self,
        envelope: &Envelope,
        letter: &DeadLetter,
    ) -> impl Future<Output = Result<AckOutcome, BrokerError>> + Send;

    /// The message goes back as if it had never been taken: soon, and without counting where that is possible.
    fn give_back(&mut self) -> impl Future<Output = AckOutcome> + Send;

    /// Tells the broker that the message is still being worked on.
    fn extend(&mut self) -> impl Future<Output = AckOutcome> + Send {
        ready(AckOutcome::Sent)
    }
}

/// Dead letters that can be brought back.
pub trait Redrive: Adapter {
    /// Moves up to `at_most` messages from the dead letters back to where they came from, with their counters at the
    /// start. Each is taken from the dead letters only after the broker has it in its place.
    fn redrive(self, at_most: Option<u64>) -> impl Future<Output = Result<u64, BrokerError>> + Send;
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(number) => write!(f, "{number}"),
            Self::AtLeast(number) => write!(f, "{number} or more"),
            Self::FlagOnly(false) => f.write_str("1"),
            Self::FlagOnly(true) => f.write_str("a repeat"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
