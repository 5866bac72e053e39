//! What a message says of itself, and what a copy of it says.

use idem_runtime::consume::{Attempt, BrokerId, DeadLetter, Envelope};
use rocketmq_model::common::message::{
    MessageConst, MessageTrait as _, STRING_HASH_SET, message_ext::MessageExt, message_single::Message,
};
use std::time::{Duration, SystemTime};

/// A message as the engine knows it.
pub(crate) fn envelope(message: &MessageExt) -> Envelope {
    let id = BrokerId::new(message.msg_id().as_str());
    let mut envelope = Envelope::new(id, message.body().map(Vec::from).unwrap_or_default());
    let mut headers: Vec<_> = senders(message).collect();
    headers.sort_unstable();
    for (name, value) in headers {
        envelope.headers.push(name, value);
    }
    // A delivery that ended with its process is not counted.
    let times = u32::try_from(message.reconsume_times()).unwrap_or(0);
    envelope.attempt = Attempt::AtLeast(times.saturating_add(1));
    envelope.first_at = u64::try_from(message.born_timestamp())
        .ok()
        .and_then(|millis| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis)));
    // The producer's client makes it once for each send. The message's own id is another one with each retry.
    envelope.stable_id = property(message, MessageConst::PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX).map(str::to_owned);
    envelope
}

/// The sender's properties: without what RocketMQ needs for itself, and without ours.
pub(crate) fn senders(message: &MessageExt) -> impl Iterator<Item = (&str, &str)> {
    let properties = message.properties().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    properties.filter(|(name, _)| {
        let for_people = matches!(*name, MessageConst::PROPERTY_KEYS | MessageConst::PROPERTY_TAGS);
        (for_people || !STRING_HASH_SET.contains(name)) && !name.starts_with(DeadLetter::PREFIX)
    })
}

/// One property.
pub(crate) fn property<'m>(message: &'m MessageExt, name: &str) -> Option<&'m str> {
    message.properties().iter().find(|(found, _)| found.as_str() == name).map(|(_, value)| value.as_str())
}

/// A message for `topic` with the payload and the sender's properties of this one, and with properties of ours.
pub(crate) fn copy(
    message: &MessageExt,
    topic: &str,
    ours: impl IntoIterator<Item = (&'static str, String)>,
) -> Message {
    let copy = Message::builder().topic(topic).body(message.body().unwrap_or_default());
    let mut copy = copy.build_unchecked();
    for (name, value) in senders(message) {
        copy.put_property(name.into(), value.into());
    }
    for (name, value) in ours {
        // Names and values travel in one text, with these between them.
        copy.put_property(name.into(), value.replace(['\u{1}', '\u{2}'], " ").into());
    }
    copy
}
