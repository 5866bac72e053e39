use crate::key::{BrokerAssigned, KeyPart, KeyWriter};
use std::{fmt, time::SystemTime};

/// The id that the broker gave a delivery: an offset, a delivery tag, an entry id. For logs, never an identity.
///
/// The same action sent again gets another one, so it cannot be part of a key:
///
/// ```compile_fail
/// # use idem_runtime::{Key, consume::BrokerId};
/// fn key(id: &BrokerId) -> Result<Key, idem_runtime::KeyError> {
///     Key::scope("stock.deduct").part(id).finish()
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BrokerId(String);

impl BrokerId {
    /// For adapters: the id as text.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrokerId({})", self.0)
    }
}

// It is a part of a risk that no part accepts by itself, so that the compiler can say what is wrong with it.
#[diagnostic::do_not_recommend]
impl KeyPart for BrokerId {
    type Risk = BrokerAssigned<Self>;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        out.text(&self.0);
    }
}

/// How often a message has been delivered, as far as the broker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// This is delivery number `n`, from 1.
    Exact(u32),
    /// This is delivery number `n` or a later one: some are not counted, for example those that a crash ended.
    AtLeast(u32),
    /// The broker only says whether it is a repeat.
    FlagOnly(bool),
    /// The broker says nothing.
    Unknown,
}

impl Attempt {
    /// The least number of deliveries there have been, this one included.
    #[must_use]
    pub const fn least(self) -> u32 {
        match self {
            Self::Exact(0) | Self::AtLeast(0) | Self::FlagOnly(false) | Self::Unknown => 1,
            Self::Exact(number) | Self::AtLeast(number) => number,
            Self::FlagOnly(true) => 2,
        }
    }

    /// Whether it is sure that the message was not delivered before, or how often it was.
    pub(super) const fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_) | Self::FlagOnly(false))
    }
}

/// The headers that the sender put on a message: names, and bytes that are text most of the time.
///
/// What the broker adds for itself, and the `idem-` headers of this library, are left out by the adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    /// No headers.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one. A name may stand several times where the broker allows it.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.push((name.into(), value.into()));
    }

    /// The first value of a name, which is compared as it is written.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// The first value of a name, when it is UTF-8 text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// All of them, in the sender's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, V: Into<Vec<u8>>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        Self(headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// One arrival of a message as the adapter took it from the broker, not yet decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The body of the message.
    pub payload: Vec<u8>,
    /// The sender's headers.
    pub headers: Headers,
    /// How the broker names this delivery.
    pub broker_id: BrokerId,
    /// How often it has been delivered.
    pub attempt: Attempt,
    /// When it was delivered or sent for the first time, where the broker or a header of ours says it.
    pub first_at: Option<SystemTime>,
    /// What stays the same when the broker delivers the message again, where there is such a thing: topic, partition and
    /// offset, a stream's sequence. An [`AttemptLog`](super::AttemptLog) counts by it, and by a digest of the payload
    /// where there is none.
    pub stable_id: Option<String>,
    /// Why the message is to be put aside without its handler, where the adapter has seen enough of it: more deliveries than
    /// it allows, none of which came to an answer.
    pub given_up: Option<String>,
}

impl Envelope {
    /// An envelope without headers and counters.
    #[must_use]
    pub fn new(broker_id: BrokerId, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            payload: payload.into(),
            headers: Headers::new(),
            broker_id,
            attempt: Attempt::Unknown,
            first_at: None,
            stable_id: None,
            given_up: None,
        }
    }
}

/// One delivery, as the handler gets it.
#[derive(Debug)]
pub struct Delivery<M> {
    pub(super) message: M,
    pub(super) envelope: Envelope,
    pub(super) attempt: Attempt,
}

impl<M> Delivery<M> {
    /// The decoded message.
    pub const fn message(&self) -> &M {
        &self.message
    }

    /// The message as it came.
    pub fn payload(&self) -> &[u8] {
        &self.envelope.payload
    }

    /// The sender's headers.
    pub const fn headers(&self) -> &Headers {
        &self.envelope.headers
    }

    /// How the broker names this delivery. For logs; it cannot be part of a key.
    pub const fn broker_id(&self) -> &BrokerId {
        &self.envelope.broker_id
    }

    /// Which attempt this is, those that the engine made by itself in place included.
    pub const fn attempt(&self) -> Attempt {
        self.attempt
    }
}
