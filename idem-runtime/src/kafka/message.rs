//! What a record says of itself, and what a copy of it says.

use crate::consume::{ATTEMPTS, Attempt, BrokerId, DeadLetter, Envelope, SINCE, attempts_in, since_in};
use rdkafka::{
    Message,
    message::{BorrowedMessage, Header, Headers as _, OwnedHeaders},
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The header of a copy in a retry topic: when it is due, in milliseconds since the Unix epoch.
pub(super) const DUE: &str = "idem-due";
/// The header of a copy: the topic that its original came from.
pub(super) const TOPIC: &str = "idem-topic";

/// A record, with nothing of the client's: what the client gave must be gone before the client is.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) payload: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp: Option<SystemTime>,
}

impl Record {
    pub(super) fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        Self {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect(),
            timestamp: message.timestamp().to_millis().and_then(|millis| at(u64::try_from(millis).ok()?)),
        }
    }

    #[cfg(test)]
    pub(super) fn bare(topic: &str, offset: i64) -> Self {
        let (topic, headers) = (topic.to_owned(), Vec::new());
        Self { topic, partition: 0, offset, key: None, payload: None, headers, timestamp: None }
    }

    pub(super) fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(found, _)| found == name).and_then(|(_, value)| value.as_deref())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// How many deliveries have counted, where a copy says it.
    pub(super) fn attempts(&self) -> Option<u32> {
        self.header(ATTEMPTS).map(attempts_in)
    }

    /// For how long it is not due yet.
    pub(super) fn due_in(&self) -> Option<Duration> {
        at(self.text(DUE)?.parse().ok()?)?.duration_since(SystemTime::now()).ok()
    }

    /// The topic that it came from first.
    pub(super) fn origin(&self) -> &str {
        self.text(TOPIC).unwrap_or(&self.topic)
    }

    /// It as the engine knows it.
    pub(super) fn envelope(&self, attempts: Option<u32>, first_at: Option<SystemTime>) -> Envelope {
        let id = format!("{}/{}/{}", self.topic, self.partition, self.offset);
        let mut envelope = Envelope::new(BrokerId::new(id.clone()), self.payload.clone().unwrap_or_default());
        for (name, value) in self.headers.iter().filter(|(name, _)| !is_added(name)) {
            envelope.headers.push(name.clone(), value.clone().unwrap_or_default());
        }
        if let Some(key) = &self.key {
            envelope.headers.push("kafka-key", key.clone());
        }
        envelope.attempt = attempts.map_or(Attempt::Unknown, |attempts| Attempt::AtLeast(attempts.saturating_add(1)));
        envelope.first_at = first_at.or_else(|| self.header(SINCE).and_then(since_in)).or(self.timestamp);
        envelope.stable_id = Some(id);
        envelope
    }

    /// The headers of a copy: the sender's, and those of ours.
    pub(super) fn copy<'a>(&self, ours: impl IntoIterator<Item = (&'a str, String)>) -> OwnedHeaders {
        let mut headers = OwnedHeaders::new();
        for (name, value) in self.headers.iter().filter(|(name, _)| !is_added(name)) {
            headers = headers.insert(Header { key: name, value: value.as_ref() });
        }
        for (name, value) in ours {
            headers = headers.insert(Header { key: name, value: Some(&value) });
        }
        headers
    }
}

/// Whether a header was put on by us.
fn is_added(name: &str) -> bool {
    name.starts_with(DeadLetter::PREFIX)
}

fn at(millis: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// The value of [`DUE`] for a copy that is due after this time.
pub(super) fn due_after(after: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_add(after).as_millis().to_string()
}
