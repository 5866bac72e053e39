use super::{Begin, Finished, Gate, GateFuture, InFlight, Look};
use crate::key::Key;
use std::time::Duration;

/// Two gates, one behind the other: the near one is asked first, and learns what the far one knows.
///
/// ```
/// # #[cfg(feature = "gate-memory")]
/// # fn example() {
/// use idem_runtime::gate::{MemoryGate, Stacked};
///
/// # let redis_gate = MemoryGate::new(10);
/// let gate = Stacked::new(MemoryGate::new(100_000), redis_gate);
/// # let _ = gate;
/// # }
/// ```
///
/// What is to be forgotten is forgotten in both; what other processes keep near, they keep until it expires.
#[derive(Clone, Debug)]
pub struct Stacked<N, F> {
    near: N,
    far: F,
}

impl<N: Gate, F: Gate> Stacked<N, F> {
    /// `near` in front of `far`.
    pub const fn new(near: N, far: F) -> Self {
        Self { near, far }
    }
}

impl<N: Gate, F: Gate> Gate for Stacked<N, F> {
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look> {
        Box::pin(async move {
            let near = self.near.look(key).await;
            if near != Look::Unknown {
                return near;
            }
            let far = self.far.look(key).await;
            if let Look::Finished { finished, left } = &far {
                self.near.remember(key, finished, *left).await;
            }
            far
        })
    }

    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()> {
        Box::pin(async move {
            self.near.remember(key, finished, keep).await;
            self.far.remember(key, finished, keep).await;
        })
    }

    fn begin<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, Begin> {
        Box::pin(async move {
            let near = self.near.begin(key, mine).await;
            if near != Begin::Go {
                return near;
            }
            let far = self.far.begin(key, mine).await;
            if far != Begin::Go {
                self.near.release(key, mine).await;
            }
            far
        })
    }

    fn release<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, ()> {
        Box::pin(async move {
            self.near.release(key, mine).await;
            self.far.release(key, mine).await;
        })
    }

    // The far one first: a look in between would bring it back from there.
    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()> {
        Box::pin(async move {
            self.far.forget(key).await;
            self.near.forget(key).await;
        })
    }
}
