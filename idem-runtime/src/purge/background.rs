//! The purge as a task of its own.

use super::{
    Purge, Purged,
    run::{Stop, run},
};
use crate::{
    store::{Connection, Store},
    unit::AttemptToken,
};
use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};
use tracing::{debug, info, warn};

/// How often a background purge runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says how often; `store.start_purger(..)` starts"]
pub struct Every {
    interval: Duration,
    jitter: Duration,
}

impl Every {
    /// The time from the end of a run to the next, at least 10 milliseconds. The first run comes after a random part of
    /// it, so that instances which start together do not purge together.
    pub fn new(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(10));
        Self { interval, jitter: interval / 10 }
    }

    /// A random time between none and this is added to each interval; a tenth of it by default.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    fn first(self) -> Duration {
        random_part(self.interval)
    }

    fn next(self) -> Duration {
        self.interval.saturating_add(random_part(self.jitter))
    }
}

fn random_part(of: Duration) -> Duration {
    let bytes = AttemptToken::new();
    let number = bytes.as_bytes().iter().take(3).fold(0, |number, byte| number << 8 | u32::from(*byte));
    // Divided first, so that no duration overflows.
    (of / (1 << 12)).saturating_mul(number >> 12)
}

/// A purge in the background; see [`Store::start_purger`]. Dropped, it ends after the batch in progress.
#[derive(Debug)]
#[must_use = "the purge ends when this is dropped"]
pub struct Purger {
    /// Dropped to say stop.
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Purger {
    /// Ends the purge, and waits for the batch in progress.
    ///
    /// # Cancel safety
    /// The future may be dropped: the purge ends all the same.
    pub async fn stop(self) {
        drop(self.stop);
        // It neither panics nor is aborted, unless its runtime goes down.
        let _ = self.task.await;
    }
}

impl<C: Connection> Store<C> {
    /// Purges now and then, in a task of its own, until the [`Purger`] is stopped or dropped.
    ///
    /// Each run says in the log what it did: at info when something was deleted, else at debug. An error of a run, or a
    /// panic in one of its hooks, is one line at warn, and the next run comes; no delivery is ever failed by it. It ends by
    /// itself when the store's pool is closed.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_runtime::{Every, Purge, SqliteStore};
    /// use std::time::Duration;
    ///
    /// let store = SqliteStore::connect("sqlite::memory:").await?;
    /// store.migrate().await?;
    /// let purger = store.start_purger(Purge::new(), Every::new(Duration::from_secs(3600)));
    /// // .. consume until the service is to end ..
    /// purger.stop().await;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Panics
    /// Outside a tokio runtime, as `tokio::spawn`.
    pub fn start_purger(&self, purge: Purge<'static>, every: Every) -> Purger {
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(repeat(self.clone(), purge, every, Stop::when_dropped(stopped)));
        Purger { stop, task }
    }
}

async fn repeat<C: Connection>(store: Store<C>, mut purge: Purge<'static>, every: Every, mut stop: Stop) {
    let mut wait = every.first();
    while !stop.pause(wait).await && !store.pool().is_closed() {
        let mut purged = Purged::default();
        let run = unpanicked(run(&store, &mut purge, &mut purged, &mut stop)).await;
        say(&purged, run.map(|run| run.map_err(|error| error.to_string())));
        wait = every.next();
    }
}

fn say(purged: &Purged, run: Option<Result<(), String>>) {
    let Purged { records, tokens, leases, batches, .. } = *purged;
    let longest_batch = purged.longest_batch.as_micros();
    let error = match run {
        Some(Ok(())) if purged.rows() == 0 => {
            debug!(target: "idem", "purge: nothing is due");
            return;
        }
        Some(Ok(())) => {
            info!(target: "idem", { records, tokens, leases, batches, longest_batch_us = longest_batch }, "purged");
            return;
        }
        Some(Err(error)) => error,
        None => "a hook panicked".to_owned(),
    };
    warn!(target: "idem", { records, tokens, leases, batches, error }, "the purge ended early; the next one goes on");
}

/// `None` when it panics.
async fn unpanicked<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    // It is not polled again after a panic, and nothing but counters outlives it.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::{Every, random_part};
    use std::time::Duration;

    #[test]
    fn waits_are_random_and_bounded() {
        let every = Every::new(Duration::from_mins(1)).jitter(Duration::from_secs(6));
        let mut differ = false;
        for _ in 0..1000 {
            assert!(every.first() < Duration::from_mins(1));
            assert!((60..66).contains(&every.next().as_secs()));
            differ |= every.first() != every.first();
        }
        assert!(differ);
        for extreme in [Duration::ZERO, Duration::MAX] {
            let every = Every::new(extreme).jitter(extreme);
            assert!(every.first() <= extreme.max(Duration::from_millis(10)));
            assert!(every.next() >= Duration::from_millis(10));
        }
        assert!((0..1000).any(|_| random_part(Duration::from_secs(100)) > Duration::from_secs(90)));
    }
}
