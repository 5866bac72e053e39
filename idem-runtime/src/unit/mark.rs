//! What a unit has to do with the gate in front of its store.

use super::AttemptToken;
use crate::{
    gate::{Finished, Gate, Look},
    key::{Compared, Key, hex},
    outcome::Seen,
    store::Record,
};
use std::{sync::Arc, time::Duration};

/// A claim's standing at the gate, until the unit ends.
pub(super) struct Mark {
    gate: Arc<dyn Gate>,
    owner: String,
    /// The gate took the action for finished, and the store was asked all the same.
    taken_for_finished: bool,
}

/// What the gate answers in the store's place.
pub(super) enum Passed {
    Finished(Seen),
    InFlight(Duration),
}

impl Mark {
    pub(super) async fn place(
        gate: &Arc<dyn Gate>,
        key: &Key,
        attempt: AttemptToken,
        confirm: bool,
    ) -> Result<Self, Passed> {
        let look = gate.look(key).await;
        let taken_for_finished = matches!(look, Look::Finished(_));
        if let Look::Finished(finished) = look
            && !confirm
            && can_answer(&finished, key)
        {
            return Err(Passed::Finished(Seen {
                first_at: finished.first_at(),
                delivery_id: finished.delivery_id,
                late: false,
                result: (),
                stored: None,
            }));
        }
        let owner = hex(attempt.as_bytes());
        match gate.begin(key, &owner).await {
            Some(retry_after) => Err(Passed::InFlight(retry_after)),
            None => Ok(Self { gate: Arc::clone(gate), owner, taken_for_finished }),
        }
    }

    /// The action is not done, whatever the gate says.
    pub(super) async fn store_knows_nothing(&self, key: &Key) {
        if self.taken_for_finished {
            self.gate.forget(key).await;
        }
    }

    pub(super) async fn store_remembers(&self, key: &Key, record: &Record) {
        // Past its retention a record may be purged at any moment, and the gate must not outlive it.
        let left = u64::try_from(record.keep_until.0.saturating_sub(record.now.0)).unwrap_or(0);
        if left > 0 {
            let finished = Finished {
                first_at: Some(record.claimed_at.0),
                delivery_id: record.delivery_id.clone(),
                fingerprint: record.fingerprint.clone(),
                has_result: record.result.is_some(),
            };
            self.gate.remember(key, &finished, Duration::from_millis(left)).await;
        }
    }

    /// The unit is committed.
    pub(super) async fn committed(self, key: &Key, has_result: bool, keep: Duration) {
        let finished = Finished {
            first_at: None,
            delivery_id: key.delivery_id().map(str::to_owned),
            fingerprint: key.fingerprint().map(|fingerprint| fingerprint.as_bytes().to_vec()),
            has_result,
        };
        self.gate.remember(key, &finished, keep).await;
        self.gate.release(key, &self.owner).await;
    }

    pub(super) async fn release(self, key: &Key) {
        self.gate.release(key, &self.owner).await;
    }

    /// As [`release`](Self::release), where nobody waits: in the background, or by the mark's own expiry.
    pub(super) fn release_later(self, key: &Key) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let key = key.clone();
            runtime.spawn(async move { self.release(&key).await });
        }
    }
}

/// Whether what the gate remembers is all that the delivery needs. Only the store has the stored result, and the two times
/// of a payload that differs.
fn can_answer(finished: &Finished, key: &Key) -> bool {
    let same = match (key.fingerprint(), &finished.fingerprint) {
        (Some(ours), Some(stored)) => ours.compare(stored) == Compared::Same,
        _ => true,
    };
    same && !finished.has_result
}
