//! What a consumer logs: one event for each message that it settles.

use super::{
    adapter::{AckOutcome, Horizon, Redelivery},
    dead_letter::DeadLetter,
    delivery::BrokerId,
};
use std::{fmt, time::Duration};
use tracing::{debug, info, warn};

/// Where a message came from, and how the broker named it.
#[derive(Clone, Copy, Debug)]
pub(super) struct From<'a> {
    pub(super) source: &'a str,
    pub(super) id: &'a BrokerId,
}

macro_rules! settled {
    ($level:ident, $from:expr, $settled:literal, { $($fields:tt)* }, $message:literal) => {{
        count($from.source, $settled);
        $level!(
            target: "idem",
            { delivery.id = %$from.id, idem.source = $from.source, idem.settled = $settled, $($fields)* },
            $message
        )
    }};
}

#[cfg(feature = "metrics")]
fn count(source: &str, settled: &'static str) {
    metrics::counter!("idem_settled_total", "source" => source.to_owned(), "settled" => settled).increment(1);
}

#[cfg(not(feature = "metrics"))]
const fn count(_: &str, _: &'static str) {}

pub(super) fn acked(from: From<'_>, outcome: &'static str, ack: AckOutcome) {
    let label = ack.label();
    if ack.is_settled() {
        settled!(debug, from, "acked", { idem.outcome = outcome, idem.ack = label }, "acked");
    } else {
        settled!(
            warn,
            from,
            "lost",
            { idem.outcome = outcome, idem.ack = label },
            "the ack did not reach the broker: the message comes again, and is a duplicate"
        );
    }
}

pub(super) fn retried(from: From<'_>, redelivery: &Redelivery, error: &str, ack: AckOutcome) {
    let (after, label, attempts) = (redelivery.after, ack.label(), redelivery.attempts);
    settled!(debug, from, "retry", { ?after, attempts, idem.ack = label, error }, "to come again later");
}

pub(super) fn dead_letter(from: From<'_>, letter: &DeadLetter, ack: AckOutcome) {
    settled!(
        warn,
        from,
        "dead-letter",
        {
            reason = letter.reason.label(),
            attempts = letter.attempts,
            idem.key = letter.key.as_deref(),
            idem.ack = ack.label(),
            error = &*letter.error,
        },
        "put aside with the dead letters"
    );
}

pub(super) fn given_back(from: From<'_>, why: &str, ack: AckOutcome) {
    settled!(debug, from, "given-back", { idem.ack = ack.label(), why }, "given back to the broker");
}

/// A step that failed, after which another one is tried.
pub(super) fn not_settled(from: From<'_>, doing: &str, error: &dyn fmt::Display) {
    warn!(target: "idem", { delivery.id = %from.id, idem.source = from.source, doing, %error }, "not settled yet");
}

/// The store's trouble is waited out.
pub(super) fn waiting(from: From<'_>, again: bool, pause: Duration, error: &str) {
    let (source, id) = (from.source, from.id);
    if again {
        debug!(target: "idem", { delivery.id = %id, idem.source = source, ?pause, error }, "still waiting in place");
    } else {
        warn!(
            target: "idem",
            { delivery.id = %id, idem.source = source, ?pause, error },
            "not the message's fault: waiting in place"
        );
    }
}

/// A message that keeps its lane while it is tried again.
pub(super) fn again_in_lane(from: From<'_>, pause: Duration, error: &str) {
    debug!(
        target: "idem",
        { delivery.id = %from.id, idem.source = from.source, ?pause, error },
        "trying again in place, to keep the order of its key"
    );
}

/// The broker does not take an extension: somebody else may have the message.
pub(super) fn not_extended(source: &str, id: &BrokerId, outcome: AckOutcome) {
    let label = outcome.label();
    debug!(target: "idem", { delivery.id = %id, idem.source = source, idem.ack = label }, "the hold is not extended");
}

pub(super) fn count_not_forgotten(from: From<'_>, error: &dyn fmt::Display) {
    warn!(target: "idem", { delivery.id = %from.id, idem.source = from.source, %error }, "the count of attempts stays");
}

pub(super) fn started(source: &str, broker: &str, horizon: Option<&Horizon>) {
    let horizon = horizon.map_or_else(
        || "unknown: keep records for as long as the broker keeps messages".to_owned(),
        |horizon| format!("{:?}: {}", horizon.longest, horizon.because),
    );
    info!(target: "idem", { idem.source = source, broker, horizon }, "consuming");
}

pub(super) fn stopping(source: &str, held: usize, why: &dyn fmt::Display) {
    info!(target: "idem", { idem.source = source, held, %why }, "taking no more; finishing what is held");
}

pub(super) fn abandoned(source: &str, held: u64) {
    warn!(target: "idem", { idem.source = source, held }, "not settled in time: these messages come again");
}
