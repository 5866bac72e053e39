//! What an entry says.

use crate::consume::{Attempt, BrokerId, DeadLetter, Envelope};
use redis::{RedisResult, Value, from_redis_value};
use std::time::{Duration, SystemTime};

/// An entry of a stream, and how often it was delivered, this time included.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) delivered: u32,
    /// Names and values in turn, as they were sent.
    pub(super) fields: Vec<Vec<u8>>,
}

impl Entry {
    /// As the engine knows it. The body is one of the fields, and the others are headers.
    pub(super) fn envelope(&self, stream: &str, body: &str) -> Envelope {
        let (payloads, headers): (Vec<_>, Vec<_>) = pairs(&self.fields).partition(|(name, _)| *name == body.as_bytes());
        let payload = payloads.first().map(|(_, value)| value.to_vec()).unwrap_or_default();
        let mut envelope = Envelope::new(BrokerId::new(format!("{stream}/{}.{}", self.id, self.delivered)), payload);
        for (name, value) in headers.into_iter().filter(|(name, _)| !is_ours(name)) {
            envelope.headers.push(String::from_utf8_lossy(name), value);
        }
        envelope.attempt = Attempt::Exact(self.delivered);
        envelope.first_at = sent_at(&self.id);
        envelope.stable_id = Some(format!("{stream}/{}", self.id));
        envelope
    }
}

/// The sender's fields, without those of this library.
pub(super) fn senders(fields: &[Vec<u8>]) -> impl Iterator<Item = (&[u8], &[u8])> {
    pairs(fields).filter(|(name, _)| !is_ours(name))
}

fn pairs(fields: &[Vec<u8>]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1]))
}

fn is_ours(name: &[u8]) -> bool {
    name.starts_with(DeadLetter::PREFIX.as_bytes())
}

/// When the entry was added, if Redis made its id.
fn sent_at(id: &str) -> Option<SystemTime> {
    let millis = id.split('-').next()?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// The entries of an answer to XREADGROUP for one stream. All are delivered for the first time.
pub(super) fn read(answer: Value) -> RedisResult<Vec<Entry>> {
    let streams: Vec<Value> = match answer {
        // The newer protocol says it with a map.
        Value::Map(streams) => streams.into_iter().map(|(_, entries)| entries).collect(),
        Value::Nil => Vec::new(),
        answer => {
            let streams: Vec<(Value, Value)> = from_redis_value(answer)?;
            streams.into_iter().map(|(_, entries)| entries).collect()
        }
    };
    let mut read = Vec::new();
    for entries in streams {
        let entries: Vec<(String, Vec<Vec<u8>>)> = from_redis_value(entries)?;
        read.extend(entries.into_iter().map(|(id, fields)| Entry { id, delivered: 1, fields }));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::{Entry, read, senders};
    use crate::consume::Attempt;
    use redis::Value;
    use std::time::{Duration, SystemTime};

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn an_entry_is_a_body_and_headers() {
        let fields = ["tenant", "acme", "payload", "{}", "idem-error", "old", "tenant", "b"].map(Vec::from).to_vec();
        let entry = Entry { id: "1700000000000-3".to_owned(), delivered: 2, fields };
        let envelope = entry.envelope("deduct", "payload");
        assert_eq!(envelope.payload, b"{}");
        let headers: Vec<_> = envelope.headers.iter().collect();
        assert_eq!(headers, [("tenant", &b"acme"[..]), ("tenant", b"b")]);
        assert_eq!(envelope.attempt, Attempt::Exact(2));
        assert_eq!(envelope.first_at, Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000)));
        assert_eq!(envelope.stable_id.as_deref(), Some("deduct/1700000000000-3"));
        assert_eq!(senders(&entry.fields).count(), 3);
        assert!(entry.envelope("deduct", "body").payload.is_empty());
    }

    #[test]
    fn both_protocols_are_read() {
        let entries = || {
            let fields = Value::Array(vec![text("payload"), text("{}")]);
            Value::Array(vec![Value::Array(vec![text("1-1"), fields])])
        };
        let old = Value::Array(vec![Value::Array(vec![text("deduct"), entries()])]);
        let new = Value::Map(vec![(text("deduct"), entries())]);
        for answer in [old, new] {
            let read = read(answer).unwrap();
            assert_eq!((read.len(), &*read[0].id, read[0].delivered), (1, "1-1", 1));
            assert_eq!(read[0].fields, [b"payload".to_vec(), b"{}".to_vec()]);
        }
        assert!(read(Value::Nil).unwrap().is_empty());
        assert!(read(text("what")).is_err());
    }
}
