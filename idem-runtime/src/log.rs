//! The one event a delivery, with fixed fields.
//!
//! `delivery.id`, `idem.scope`, `idem.key`, `idem.outcome` (`first`, `duplicate`, `ignored`, `busy`, `failed`), and
//! `error` where there is one. What is normal operation is at `info` or below. With the feature `metrics` each event
//! also counts, under the same label.

use crate::{
    error::{Busy, ClaimError},
    key::{Key, KeyError},
    outcome::{Ignored, Seen},
    replay::{Keep, Replayable},
};
use std::fmt;
use tracing::{debug, error, info, warn};

macro_rules! delivery {
    ($level:ident, $key:expr, $outcome:literal, { $($fields:tt)* }, $message:literal) => {{
        count($key.scope_name(), $outcome);
        $level!(
            target: "idem",
            {
                delivery.id = $key.delivery_id(),
                idem.scope = $key.scope_name(),
                idem.key = $key.text(),
                idem.outcome = $outcome,
                $($fields)*
            },
            $message
        )
    }};
}

/// Counts a delivery. The key is no label: each action has its own, and a label with so many values is no metric.
#[cfg(feature = "metrics")]
fn count(scope: &str, outcome: &'static str) {
    metrics::counter!("idem_deliveries_total", "scope" => scope.to_owned(), "outcome" => outcome).increment(1);
}

#[cfg(not(feature = "metrics"))]
const fn count(_: &str, _: &'static str) {}

pub(crate) fn first(key: &Key) {
    delivery!(info, key, "first", {}, "done");
}

pub(crate) fn duplicate(key: &Key, seen: &Seen) {
    let by = seen.delivery_id.as_deref();
    if seen.late {
        delivery!(
            warn,
            key,
            "duplicate",
            { first.delivery.id = by, late = true },
            "a repeat after the record's retention: it passes once the record is purged, so the retention is too short"
        );
    } else {
        delivery!(info, key, "duplicate", { first.delivery.id = by }, "a repeat; the body did not run");
    }
}

/// The action was not called for.
pub(crate) fn ignored(key: &Key, ignored: &Ignored) {
    delivery!(info, key, "ignored", { reason = &*ignored.reason }, "not called for; nothing was written");
}

/// A repeat whose payload cannot be compared with the first one's.
pub(crate) fn payload_not_comparable(key: &Key) {
    warn!(
        target: "idem",
        { idem.scope = key.scope_name(), idem.key = key.text() },
        "the handler's `payload` was another when this action was done, so this repeat could not be compared with it"
    );
}

/// Says it when a result was not kept.
pub(crate) fn result_not_kept<T: Replayable>(key: &Key, keep: &Keep<T>, stored: &[u8]) {
    if let Some(error) = keep.why_not_kept(stored) {
        warn!(
            target: "idem",
            { idem.scope = key.scope_name(), idem.key = key.text(), %error },
            "the result is not kept; the unit is committed all the same, and repeats get no result"
        );
    }
}

/// The delivery was refused before its body.
pub(crate) fn not_claimed(key: &Key, error: &ClaimError) {
    match error {
        ClaimError::Busy(Busy::NoConnection(_)) => delivery!(warn, key, "busy", { %error }, "no connection"),
        ClaimError::Busy(_) => delivery!(info, key, "busy", { %error }, "in the way of another delivery"),
        ClaimError::Configuration(_) => delivery!(error, key, "failed", { %error }, "the store is set up wrong"),
        _ => delivery!(warn, key, "failed", { %error }, "not claimed"),
    }
}

/// The key could not be built, so there is no key to name.
pub(crate) fn no_key(scope: &str, delivery: Option<&str>, error: &KeyError) {
    count(scope, "failed");
    warn!(
        target: "idem",
        { delivery.id = delivery, idem.scope = scope, idem.outcome = "failed", %error },
        "no key; nothing ran"
    );
}

/// The body failed. Its error may have no text of its own, so the caller's log has to show it.
pub(crate) fn body_failed(key: &Key) {
    delivery!(warn, key, "failed", { reason = "body" }, "the body failed; all rolled back");
}

/// The unit was dropped before its end.
pub(crate) fn dropped(key: &Key) {
    let reason = if std::thread::panicking() { "panic" } else { "cancelled" };
    delivery!(warn, key, "failed", { reason }, "the unit did not come to its end, and is rolled back");
}

/// The unit was dropped with its COMMIT on the way.
pub(crate) fn dropped_while_closing(key: &Key) {
    delivery!(
        warn,
        key,
        "failed",
        { reason = "cancelled" },
        "dropped while committing: durable as a whole or not at all; the claim decides when it is delivered again"
    );
}

pub(crate) fn not_committed(key: &Key, error: &dyn fmt::Display) {
    delivery!(warn, key, "failed", { %error }, "not committed");
}

pub(crate) fn ended_inside(key: &Key, error: &dyn fmt::Display) {
    delivery!(error, key, "failed", { %error }, "a fault in the body");
}

/// An attempt that is about to be repeated: no outcome of the delivery yet.
pub(crate) fn repeating(key: &Key, left: u32) {
    debug!(target: "idem", { idem.scope = key.scope_name(), idem.key = key.text(), left }, "the unit failed; running it again");
}

pub(crate) fn restarting(key: &Key, error: &dyn fmt::Display) {
    debug!(target: "idem", { idem.scope = key.scope_name(), idem.key = key.text(), %error }, "claim conflict; starting the unit again");
}

pub(crate) fn commit_settled(key: &Key, committed: bool) {
    warn!(
        target: "idem",
        { idem.scope = key.scope_name(), idem.key = key.text(), committed },
        "the answer to COMMIT was lost; the claim row decided"
    );
}

/// The body of work under a lease failed.
pub(crate) fn lease_body_failed(key: &Key, given_back: bool) {
    if given_back {
        delivery!(warn, key, "failed", { reason = "body" }, "the body failed; its lease is given back");
    } else {
        delivery!(
            warn,
            key,
            "failed",
            { reason = "body" },
            "the body failed, and its lease could not be given back: the next delivery waits until it has run out"
        );
    }
}

/// Work under a lease was dropped before its end.
pub(crate) fn lease_dropped(key: &Key) {
    let reason = if std::thread::panicking() { "panic" } else { "cancelled" };
    delivery!(
        warn,
        key,
        "failed",
        { reason },
        "the work did not come to its end; whether it happened is not known, and it runs again once its lease has run out"
    );
}

pub(crate) fn lease_dropped_while_completing(key: &Key) {
    delivery!(
        warn,
        key,
        "failed",
        { reason = "cancelled" },
        "dropped while completing: if it was not written down, the work runs again once its lease has run out"
    );
}

/// A renewal found another owner.
pub(crate) fn lease_taken(key: &Key) {
    warn!(
        target: "idem",
        { idem.scope = key.scope_name(), idem.key = key.text() },
        "the lease has another owner now, or none; this work goes on, and its completion will be refused"
    );
}

/// A renewal failed; it is tried again.
pub(crate) fn lease_not_renewed(key: &Key, error: &dyn fmt::Display, ran_out: bool) {
    if ran_out {
        warn!(
            target: "idem",
            { idem.scope = key.scope_name(), idem.key = key.text(), %error },
            "the lease ran out and cannot be renewed: another delivery may do the same work now"
        );
    } else {
        debug!(
            target: "idem",
            { idem.scope = key.scope_name(), idem.key = key.text(), %error },
            "the lease could not be renewed; trying again"
        );
    }
}

pub(crate) fn lease_restarting(error: &dyn fmt::Display) {
    debug!(target: "idem", { %error }, "keeping a lease failed; trying again");
}

pub(crate) fn no_heartbeat() {
    error!(target: "idem", "the thread that renews leases could not be started: leases run out while work goes on");
}
