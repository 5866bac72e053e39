//! What a message says of itself, and what a copy of it says.

use crate::consume::{ATTEMPTS, Attempt, BrokerId, DeadLetter, Envelope, SINCE, attempts_in, since_in};
use lapin::{
    BasicProperties,
    message::Delivery,
    types::{AMQPValue, FieldTable},
};

/// The delivery mode of messages that survive a restart.
const PERSISTENT: u8 = 2;

/// What RabbitMQ says of how often a message was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    /// Our own header of a copy.
    attempts: Option<u32>,
    /// `x-acquired-count`, from 4.3 on: the earlier deliveries of this copy.
    acquired: Option<u32>,
    /// `x-delivery-count` of quorum queues: the earlier deliveries of this copy that failed.
    delivered: Option<u32>,
    redelivered: bool,
}

impl Counters {
    fn attempt(self) -> Attempt {
        let before = self.attempts.unwrap_or(0);
        // From 4.3 on a delivery that was returned with a nack counts in the first alone.
        match self.acquired.or(self.delivered) {
            Some(earlier) => Attempt::Exact(before.saturating_add(earlier).saturating_add(1)),
            // The first delivery has no count on a quorum queue either.
            None if before == 0 => Attempt::FlagOnly(self.redelivered),
            None => Attempt::AtLeast(before.saturating_add(if self.redelivered { 2 } else { 1 })),
        }
    }
}

/// A delivery as the engine knows it. Takes the payload.
pub(super) fn envelope(queue: &str, delivery: &mut Delivery) -> Envelope {
    let id = BrokerId::new(format!("{queue}#{}", delivery.delivery_tag));
    let mut envelope = Envelope::new(id, std::mem::take(&mut delivery.data));
    let mut counters = Counters { redelivered: delivery.redelivered, ..Counters::default() };
    for (name, value) in delivery.properties.headers().iter().flat_map(FieldTable::inner) {
        match name.as_str() {
            ATTEMPTS => counters.attempts = bytes(value).map(|value| attempts_in(&value)),
            SINCE => envelope.first_at = bytes(value).and_then(|value| since_in(&value)),
            "x-acquired-count" => counters.acquired = number(value),
            "x-delivery-count" => counters.delivered = number(value),
            name if is_added(name) => {}
            name => {
                if let Some(value) = bytes(value) {
                    envelope.headers.push(name, value);
                }
            }
        }
    }
    if let Some(id) = delivery.properties.message_id() {
        // What the sender put there, where it cannot be missed by a handler that wants it.
        envelope.headers.push("message-id", id.as_str());
    }
    envelope.attempt = counters.attempt();
    envelope
}

/// Whether a header was put on by RabbitMQ or by us.
fn is_added(name: &str) -> bool {
    name.starts_with(DeadLetter::PREFIX)
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
        || matches!(name, "x-death" | "x-delivery-count" | "x-acquired-count" | "x-opt-deaths" | "x-dead-letter-reason")
}

/// The properties of a copy: the sender's, without what belongs to the old place, and with headers of ours.
///
/// The expiration would make the copy vanish from the queue where it waits; the user id is checked against our own
/// connection's, and the channel would be closed.
pub(super) fn copy(
    properties: &BasicProperties,
    ours: impl IntoIterator<Item = (&'static str, String)>,
) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        if !is_added(name.as_str()) {
            headers.insert(name.clone(), value.clone());
        }
    }
    for (name, value) in ours {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let mut copy = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    macro_rules! keep {
        ($($get:ident, $with:ident;)*) => {$(
            if let Some(value) = properties.$get() {
                copy = copy.$with(value.clone());
            }
        )*};
    }
    keep! {
        content_type, with_content_type;
        content_encoding, with_content_encoding;
        priority, with_priority;
        correlation_id, with_correlation_id;
        reply_to, with_reply_to;
        message_id, with_message_id;
        timestamp, with_timestamp;
        kind, with_type;
        app_id, with_app_id;
    }
    copy
}

/// A header's text, if it is there.
pub(super) fn header(properties: &BasicProperties, name: &str) -> Option<String> {
    let headers = properties.headers().as_ref()?;
    let value = headers.inner().iter().find(|(found, _)| found.as_str() == name)?.1;
    bytes(value).and_then(|value| String::from_utf8(value).ok())
}

fn bytes(value: &AMQPValue) -> Option<Vec<u8>> {
    Some(match value {
        AMQPValue::LongString(text) => text.as_bytes().to_vec(),
        AMQPValue::ShortString(text) => text.as_str().as_bytes().to_vec(),
        AMQPValue::ByteArray(bytes) => bytes.as_slice().to_vec(),
        AMQPValue::Boolean(value) => value.to_string().into_bytes(),
        AMQPValue::ShortShortInt(value) => value.to_string().into_bytes(),
        AMQPValue::ShortShortUInt(value) => value.to_string().into_bytes(),
        AMQPValue::ShortInt(value) => value.to_string().into_bytes(),
        AMQPValue::ShortUInt(value) => value.to_string().into_bytes(),
        AMQPValue::LongInt(value) => value.to_string().into_bytes(),
        AMQPValue::LongUInt(value) => value.to_string().into_bytes(),
        AMQPValue::LongLongInt(value) => value.to_string().into_bytes(),
        _ => return None,
    })
}

/// A counter, in whichever size of number this version of RabbitMQ sends it.
fn number(value: &AMQPValue) -> Option<u32> {
    std::str::from_utf8(&bytes(value)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Counters, copy, header};
    use crate::consume::{ATTEMPTS, Attempt};
    use lapin::{
        BasicProperties,
        types::{AMQPValue, FieldTable},
    };

    /// The server of the tests is 3.10, so what 4.x says is checked here.
    #[test]
    fn attempts_by_what_rabbitmq_says() {
        let counters = |attempts, acquired, delivered, redelivered| {
            Counters { attempts, acquired, delivered, redelivered }.attempt()
        };
        // The first delivery, on any queue.
        assert_eq!(counters(None, None, None, false), Attempt::FlagOnly(false));
        // A classic queue.
        assert_eq!(counters(None, None, None, true), Attempt::FlagOnly(true));
        assert_eq!(counters(Some(3), None, None, false), Attempt::AtLeast(4));
        assert_eq!(counters(Some(3), None, None, true), Attempt::AtLeast(5));
        // A quorum queue.
        assert_eq!(counters(None, None, Some(1), true), Attempt::Exact(2));
        assert_eq!(counters(Some(3), None, Some(2), true), Attempt::Exact(6));
        // From 4.3 on a return by nack counts only as acquired.
        assert_eq!(counters(None, Some(2), Some(0), true), Attempt::Exact(3));
        assert_eq!(counters(Some(u32::MAX), None, Some(u32::MAX), true), Attempt::Exact(u32::MAX));
    }

    #[test]
    fn a_copy_is_the_senders_without_what_belongs_to_the_old_place() {
        let mut headers = FieldTable::default();
        for (name, value) in [("tenant", "acme"), ("x-death", "gone"), (ATTEMPTS, "9"), ("idem-error", "old")] {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let original = BasicProperties::default()
            .with_headers(headers)
            .with_expiration("1000".into())
            .with_user_id("somebody".into())
            .with_message_id("m-1".into())
            .with_delivery_mode(1);
        let copy = copy(&original, [(ATTEMPTS, "4".to_owned())]);
        assert_eq!(header(&copy, "tenant").as_deref(), Some("acme"));
        assert_eq!(header(&copy, ATTEMPTS).as_deref(), Some("4"));
        assert_eq!((header(&copy, "x-death"), header(&copy, "idem-error")), (None, None));
        assert_eq!((copy.expiration(), copy.user_id()), (&None, &None));
        assert_eq!(copy.message_id(), original.message_id());
        assert_eq!(*copy.delivery_mode(), Some(2));
    }
}
