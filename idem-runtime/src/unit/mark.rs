//! What a unit has to do with the gate in front of its store.

use super::AttemptToken;
use crate::{
    gate::{Begin, Finished, Front, InFlight, Look},
    key::{Compared, Key, hex},
    outcome::Seen,
    store::Record,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A claim's standing at the gate, until the unit ends.
///
/// # Cancel safety
/// Dropped before its end it takes its mark away in the background; without a runtime the mark expires by itself.
pub(super) struct Mark {
    gate: Arc<Front>,
    key: Key,
    mine: InFlight,
    /// The gate may hold a mark of it.
    placed: bool,
    /// From before the claim, so that what is counted from here ends before the record does.
    since: Instant,
    /// What the gate took the action for, when the store is asked all the same.
    taken_for: Option<Finished>,
}

/// What the gate answers in the store's place.
pub(super) enum Passed {
    Finished(Seen),
    InFlight(Duration),
}

impl Mark {
    pub(super) async fn place(
        gate: &Arc<Front>,
        key: &Key,
        attempt: AttemptToken,
        confirm: bool,
    ) -> Result<Box<Self>, Passed> {
        let mut mark = Box::new(Self {
            gate: Arc::clone(gate),
            key: key.clone(),
            mine: InFlight { owner: hex(attempt.as_bytes()), fingerprint: fingerprint(key) },
            placed: false,
            since: Instant::now(),
            taken_for: None,
        });
        match gate.look(key).await {
            Look::Finished { finished, .. } if !confirm && can_answer(&finished, key) => {
                return Err(Passed::Finished(Seen {
                    first_at: finished.first_at(),
                    delivery_id: finished.delivery_id,
                    late: false,
                    result: (),
                    stored: None,
                }));
            }
            // No mark: repeats of what is finished are not in each other's way.
            Look::Finished { finished, .. } => mark.taken_for = Some(finished),
            Look::Unknown => {
                // From here on it may be there, whether the answer comes or not.
                mark.placed = true;
                if let Begin::Taken { by, retry_after } = gate.begin(key, &mark.mine).await
                    && by.owner != mark.mine.owner
                {
                    mark.placed = false;
                    // Another payload is a mistake and not busy; the store says so, and waits until it can.
                    if same_payload(key, by.fingerprint.as_deref()) {
                        return Err(Passed::InFlight(retry_after.max(Duration::from_millis(1))));
                    }
                }
            }
        }
        Ok(mark)
    }

    /// The action is not done, whatever the gate says.
    pub(super) async fn store_knows_nothing(&self) {
        if self.taken_for.is_some() {
            self.gate.forget(&self.key).await;
        }
    }

    pub(super) async fn store_remembers(&self, record: &Record) {
        let finished = Finished {
            first_at: Some(record.claimed_at.0),
            delivery_id: record.delivery_id.clone(),
            fingerprint: record.fingerprint.clone(),
            has_result: record.result.is_some(),
        };
        if self.taken_for.as_ref().is_some_and(|known| says_the_same(known, &finished)) {
            return;
        }
        // Past its retention a record may be purged at any moment, and the gate must not outlive it.
        let left = u64::try_from(record.keep_until.0.saturating_sub(record.now.0)).unwrap_or(0);
        self.remember(&finished, Duration::from_millis(left)).await;
    }

    /// The unit is committed.
    pub(super) async fn committed(self: Box<Self>, has_result: bool, retention: Duration) {
        let finished = Finished {
            first_at: None,
            delivery_id: self.key.delivery_id().map(str::to_owned),
            fingerprint: fingerprint(&self.key),
            has_result,
        };
        self.remember(&finished, retention).await;
        self.release().await;
    }

    /// Remembers for what is left of a time that was counted from the claim or later.
    async fn remember(&self, finished: &Finished, keep: Duration) {
        let keep = keep.saturating_sub(self.since.elapsed());
        if !keep.is_zero() {
            self.gate.remember(&self.key, finished, keep).await;
        }
    }

    pub(super) async fn release(mut self: Box<Self>) {
        if self.placed {
            self.gate.release(&self.key, &self.mine).await;
            self.placed = false;
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.placed
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (gate, key, mine) = (Arc::clone(&self.gate), self.key.clone(), self.mine.clone());
            runtime.spawn(async move { gate.release(&key, &mine).await });
        }
    }
}

fn fingerprint(key: &Key) -> Option<Vec<u8>> {
    key.fingerprint().map(|fingerprint| fingerprint.as_bytes().to_vec())
}

/// Whether what the gate remembers is all that the delivery needs. Only the store has the stored result, and the two times
/// of a payload that differs.
fn can_answer(finished: &Finished, key: &Key) -> bool {
    same_payload(key, finished.fingerprint.as_deref()) && !finished.has_result
}

fn same_payload(key: &Key, other: Option<&[u8]>) -> bool {
    match (key.fingerprint(), other) {
        (Some(ours), Some(other)) => ours.compare(other) == Compared::Same,
        _ => true,
    }
}

/// Whether a gate that remembers `known` would learn nothing that matters from `finished`.
fn says_the_same(known: &Finished, finished: &Finished) -> bool {
    (&known.fingerprint, known.has_result) == (&finished.fingerprint, finished.has_result)
}
