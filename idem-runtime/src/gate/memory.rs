use super::{Finished, Gate, GateFuture, Look, Stacked, name::digest};
use crate::{key::Key, retention::Retention};
use moka::{Expiry, policy::EvictionPolicy, sync::Cache};
use std::{
    fmt,
    future::ready,
    time::{Duration, Instant},
};

/// Beyond this the clock of the cache ends.
const LONGEST: Duration = Retention::MAX.as_duration();

/// A gate in the memory of the process.
///
/// It knows what this process has finished or has seen repeated, the latest `capacity` actions of it. Cheap to clone;
/// clones share the memory.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_runtime::{SqliteStore, gate::MemoryGate};
/// use std::time::Duration;
///
/// let gate = MemoryGate::new(100_000).keep(Duration::from_secs(3600));
/// let store = SqliteStore::builder().gate(gate).connect("sqlite::memory:").await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
///
/// There are no marks of actions in flight here: within a process the claim itself makes a second delivery wait.
#[derive(Clone)]
pub struct MemoryGate {
    // The least recently used one goes first. Policies that keep what is asked for often suit a cache of answers; here most
    // actions are asked for once or never, and the new ones matter.
    finished: Cache<[u8; 32], Remembered>,
    keep: Duration,
}

#[derive(Clone)]
struct Remembered {
    finished: Finished,
    until: Instant,
}

impl MemoryGate {
    /// A gate that remembers so many actions at most, a few hundred bytes each.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let finished = Cache::builder()
            .max_capacity(capacity)
            .eviction_policy(EvictionPolicy::lru())
            .expire_after(UntilThen)
            .build();
        Self { finished, keep: LONGEST }
    }

    /// How long an action is remembered at most. By default for as long as its record is sure to be there.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep.min(LONGEST);
        self
    }

    /// This gate in front of another one; see [`Stacked`].
    pub fn over<G: Gate>(self, far: G) -> Stacked<Self, G> {
        Stacked::new(self, far)
    }
}

impl fmt::Debug for MemoryGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryGate")
            .field("capacity", &self.finished.policy().max_capacity())
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl Gate for MemoryGate {
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look> {
        let look = self.finished.get(&digest(key)).and_then(|remembered| {
            let left = remembered.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            Some(Look::Finished { finished: remembered.finished, left })
        });
        Box::pin(ready(look.unwrap_or(Look::Unknown)))
    }

    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()> {
        if let Some(until) = Instant::now().checked_add(keep.min(self.keep)) {
            self.finished.insert(digest(key), Remembered { finished: finished.clone(), until });
        }
        Box::pin(ready(()))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()> {
        self.finished.invalidate(&digest(key));
        Box::pin(ready(()))
    }
}

/// Frees an action's memory when its time is over.
struct UntilThen;

impl Expiry<[u8; 32], Remembered> for UntilThen {
    fn expire_after_create(&self, _: &[u8; 32], remembered: &Remembered, now: Instant) -> Option<Duration> {
        Some(remembered.until.saturating_duration_since(now))
    }

    fn expire_after_update(
        &self,
        _: &[u8; 32],
        remembered: &Remembered,
        now: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(remembered.until.saturating_duration_since(now))
    }
}
