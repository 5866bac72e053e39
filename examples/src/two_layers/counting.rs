//! A gate around a gate, which counts how many deliveries were answered without the database.

use idem_runtime::{
    Key,
    gate::{Finished, Gate, GateFuture, Look},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Counts hits.
#[derive(Debug)]
pub(crate) struct Counting<G> {
    /// The gate that is asked.
    pub(crate) gate: G,
    /// How often it knew the action.
    pub(crate) hits: Arc<AtomicUsize>,
}

impl<G: Gate> Gate for Counting<G> {
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look> {
        Box::pin(async move {
            let look = self.gate.look(key).await;
            if look != Look::Unknown {
                self.hits.fetch_add(1, Ordering::Relaxed);
            }
            look
        })
    }

    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()> {
        self.gate.remember(key, finished, keep)
    }

    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()> {
        self.gate.forget(key)
    }
}
