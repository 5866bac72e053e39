//! Beginning: first, duplicate, or somebody is at it.

use super::{
    Begun, HeldLease,
    heartbeat::Heart,
    ledger::{Begin, Ledger, Owned, Request},
};
use crate::{
    error::{Busy, ClaimError, ConfigurationError, PayloadMismatch},
    key::{Compared, Key, KeyError},
    log,
    outcome::Seen,
    store::LeaseRow,
    unit::{AttemptToken, Backoff},
};
use std::{
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a lease may be.
const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
/// How often a row may change between reading and taking it.
const ROUNDS: u32 = 8;

pub(super) async fn begin(
    ledger: Arc<dyn Ledger>,
    key: Result<Key, KeyError>,
    lease: Duration,
) -> Result<Begun, ClaimError> {
    let key = key?;
    let begun = try_begin(&ledger, &key, lease).await;
    match &begun {
        Ok(Decided::First(..)) => {}
        Ok(Decided::Duplicate(seen)) => log::duplicate(&key, seen),
        Err(error) => log::not_claimed(&key, error),
    }
    Ok(match begun? {
        Decided::First(owned, asked) => Begun::First(HeldLease::new(Heart::start(ledger, owned, asked))),
        Decided::Duplicate(seen) => Begun::Duplicate(seen),
    })
}

enum Decided {
    /// With the moment at which it was asked for, from which the lease counts.
    First(Owned, Instant),
    Duplicate(Seen),
}

async fn try_begin(ledger: &Arc<dyn Ledger>, key: &Key, lease: Duration) -> Result<Decided, ClaimError> {
    if !LEASES.contains(&lease) {
        return Err(ConfigurationError::Lease(lease).into());
    }
    if key.is_token() {
        return Err(ConfigurationError::LeaseOfToken.into());
    }
    // Whole milliseconds, as it is stored.
    let lease = Duration::from_millis(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
    let request = Request { key: key.clone(), attempt: AttemptToken::new(), lease };
    let mut asked = Instant::now();
    let mut unread = Unread { ledger, request: &request, armed: true };
    let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(50));
    let mut answer = ledger.insert(&request).await;
    for _ in 0..ROUNDS {
        answer = match answer? {
            Begin::Began { fence, attempts } => {
                // A connection goes back to its pool in a task, which may stand next on this very thread. A body that
                // blocks the thread would keep the connection from the heartbeat.
                tokio::task::yield_now().await;
                unread.armed = false;
                return Ok(Decided::First(owned(&request, fence, attempts), asked));
            }
            // The answer to our own beginning was lost.
            Begin::Row(row) if row.attempt == request.attempt.as_bytes() && !row.is_done => {
                unread.armed = false;
                return Ok(Decided::First(owned(&request, row.fence, row.attempts), asked));
            }
            Begin::Row(row) => {
                unread.armed = false;
                if let Some(seen) = decide(key, &row)? {
                    return Ok(Decided::Duplicate(seen));
                }
                unread.armed = true;
                asked = Instant::now();
                ledger.take(&request, &row).await
            }
            Begin::Gone => {
                backoff.pause().await;
                asked = Instant::now();
                ledger.insert(&request).await
            }
        };
        if matches!(answer, Ok(Begin::Row(_))) {
            backoff.pause().await;
        }
    }
    Err(Busy::Contended(ROUNDS).into())
}

fn owned(request: &Request, fence: i64, attempts: i64) -> Owned {
    Owned { key: request.key.clone(), attempt: request.attempt, lease: request.lease, fence, attempts }
}

/// What a row says: done, in progress (or another payload), or `None` when it may be taken over.
fn decide(key: &Key, row: &LeaseRow) -> Result<Option<Seen>, ClaimError> {
    // Before anything else: a message that was changed is told so also while the first one is worked on.
    if let (Some(ours), Some(stored)) = (key.fingerprint(), &row.fingerprint) {
        match ours.compare(stored) {
            Compared::Same => {}
            Compared::OtherShape => log::payload_not_comparable(key),
            Compared::Different => {
                return Err(ClaimError::PayloadMismatch(PayloadMismatch {
                    key: key.to_string(),
                    first_at: row.begun_at.into(),
                    now: row.now.into(),
                    first_delivery: row.delivery_id.clone(),
                }));
            }
        }
    }
    if row.is_done {
        return Ok(Some(Seen {
            first_at: Some(row.begun_at.into()),
            delivery_id: row.delivery_id.clone(),
            late: row.keep_until < row.now,
            result: (),
            stored: row.result.clone(),
        }));
    }
    let left = row.lease_until.0.saturating_sub(row.now.0);
    match u64::try_from(left) {
        Ok(left @ 1..) => Err(Busy::InProgress { retry_after: Duration::from_millis(left) }.into()),
        _ => Ok(None),
    }
}

/// A beginning whose answer was not read. No body has run, so when it is dropped what it may have begun is given back, in the
/// background; or else its lease runs out.
struct Unread<'a> {
    ledger: &'a Arc<dyn Ledger>,
    request: &'a Request,
    armed: bool,
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (ledger, request) = (Arc::clone(self.ledger), self.request.clone());
            runtime.spawn(async move {
                let _ = ledger.release(&request.key, request.attempt).await;
            });
        }
    }
}
