//! What a message says of itself, and what a copy of it says.

use crate::consume::{Attempt, BrokerId, DeadLetter, Envelope};
use async_nats::{
    HeaderMap, HeaderName, HeaderValue,
    header::NATS_MESSAGE_ID,
    jetstream::{self, message::StreamMessage},
};
use std::time::{Duration, SystemTime};

/// Where a copy keeps the sender's own `Nats-Msg-Id`: that header has to be another one on a copy, or JetStream would
/// take it for the message itself, and throw it away.
const SENDERS_ID: &str = "idem-msg-id";
/// Where a dead letter keeps the subject that it came from.
pub(super) const SUBJECT: &str = "idem-subject";
/// Where a dead letter says what it was consumed from.
pub(super) const SOURCE: &str = "idem-source";

/// A delivery as the engine knows it, and what names the message in all deliveries of it.
pub(super) fn envelope(message: &jetstream::Message) -> Option<(Envelope, String)> {
    let info = message.info().ok()?;
    let (stream, sequence) = (info.stream, info.stream_sequence);
    let id = BrokerId::new(format!("{stream}#{sequence}.{}", info.consumer_sequence));
    let mut envelope = Envelope::new(id, message.payload.to_vec());
    let published = SystemTime::from(info.published);
    envelope.attempt = Attempt::Exact(u32::try_from(info.delivered).unwrap_or(u32::MAX));
    envelope.first_at = Some(published);
    envelope.stable_id = Some(format!("{stream}/{sequence}"));
    let headers = message.headers.iter().flat_map(HeaderMap::iter);
    for (name, values) in headers.filter(|(name, _)| !is_ours(name) && **name != NATS_MESSAGE_ID) {
        for value in values {
            envelope.headers.push(name.to_string(), value.as_str());
        }
    }
    if let Some(senders) = message.headers.as_ref().and_then(senders_id) {
        envelope.headers.push(NATS_MESSAGE_ID.to_string(), senders.as_str());
    }
    Some((envelope, identity(stream, sequence, published)))
}

/// What names a message of a stream for ever. A stream that was deleted and made anew counts from 1 again, so the
/// time is a part of it.
pub(super) fn identity(stream: &str, sequence: u64, published: SystemTime) -> String {
    let since = published.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    format!("{stream}.{sequence}.{}", since.as_nanos())
}

/// The headers of a copy: the sender's, and ours. JetStream stores what has the same `id` only once, within the
/// stream's window for duplicates.
pub(super) fn copy(
    headers: Option<&HeaderMap>,
    id: &str,
    ours: impl IntoIterator<Item = (&'static str, String)>,
) -> HeaderMap {
    let mut copy = HeaderMap::new();
    for (name, values) in headers.into_iter().flat_map(HeaderMap::iter) {
        if !is_ours(name) && !name.to_string().starts_with("Nats-") {
            for value in values {
                copy.append(name.clone(), value.clone());
            }
        }
    }
    for (name, value) in ours {
        // A line's end in a header ends the client with a panic, and errors have several lines.
        copy.insert(name, value.replace(['\r', '\n'], " "));
    }
    if let Some(senders) = headers.and_then(senders_id) {
        copy.insert(SENDERS_ID, senders.clone());
    }
    copy.insert(NATS_MESSAGE_ID, id);
    copy
}

/// A header's text, if it is there.
pub(super) fn header<'m>(message: &'m StreamMessage, name: &str) -> Option<&'m str> {
    message.headers.get(name).map(HeaderValue::as_str)
}

/// The `Nats-Msg-Id` that the sender gave, also of a copy.
fn senders_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let own = || headers.get(NATS_MESSAGE_ID).filter(|id| !id.as_str().starts_with(DeadLetter::PREFIX));
    headers.get(SENDERS_ID).or_else(own)
}

fn is_ours(name: &HeaderName) -> bool {
    name.to_string().starts_with(DeadLetter::PREFIX)
}

/// Whether a subject without wildcards is one of those that a filter lets through.
pub(super) fn lets_through(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(wanted), Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{copy, identity, lets_through};
    use async_nats::{HeaderMap, header::NATS_MESSAGE_ID};
    use std::time::{Duration, SystemTime};

    #[test]
    fn filters_let_through_what_fits() {
        for (filter, subject) in [("a.b", "a.b"), ("a.*", "a.b"), (">", "a"), ("a.>", "a.b.c"), ("*.b.*", "a.b.c")] {
            assert!(lets_through(filter, subject), "{filter} {subject}");
        }
        for (filter, subject) in [("a.b", "a"), ("a", "a.b"), ("a.*", "a.b.c"), ("a.>", "a"), ("a.b", "a.c")] {
            assert!(!lets_through(filter, subject), "{filter} {subject}");
        }
    }

    #[test]
    fn a_copy_has_an_id_of_its_own_and_keeps_the_senders() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("tenant", "acme"), ("Nats-Msg-Id", "order-1"), ("Nats-Expected-Stream", "X")] {
            headers.insert(name, value);
        }
        headers.insert("idem-error", "old");
        let text = |headers: &HeaderMap, name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        let first = copy(Some(&headers), "idem-1", [("idem-error", "one\ntwo\r".to_owned())]);
        assert_eq!(text(&first, "tenant").as_deref(), Some("acme"));
        assert_eq!(text(&first, "idem-error").as_deref(), Some("one two "));
        // JetStream would refuse the copy, or take it for the original.
        assert_eq!(text(&first, "Nats-Expected-Stream"), None);
        assert_eq!(first.get(NATS_MESSAGE_ID).map(|id| id.as_str()), Some("idem-1"));
        // The copy of a copy still knows it.
        let second = copy(Some(&first), "idem-2", []);
        assert_eq!(text(&second, "idem-msg-id").as_deref(), Some("order-1"));
        assert_eq!(text(&second, "idem-error"), None);
        assert_eq!(text(&copy(Some(&copy(None, "idem-1", [])), "idem-2", []), "idem-msg-id"), None);
    }

    #[test]
    fn a_stream_made_anew_has_other_messages() {
        let now = SystemTime::now();
        assert_eq!(identity("S", 1, now), identity("S", 1, now));
        assert_ne!(identity("S", 1, now), identity("S", 1, now + Duration::from_micros(1)));
    }
}
