//! Dropping a future at each of its waits.

use std::{future::poll_fn, pin::pin, task::Poll};

/// When a future is dropped at one of its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At once: what it asked for is on its way.
    Asked,
    /// When it could go on: the answer is there, and nobody reads it.
    Answered,
}

/// Runs a future up to its wait number `wait`, counted from 1, and drops it there. Its output when it never waits that
/// often.
///
/// Called with 1, 2, 3 and so on until there is an output, it drops the future at every await at which it stops.
pub async fn drop_at<F: Future>(future: F, wait: usize, moment: Moment) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut waits = 0;
    poll_fn(|context| {
        if waits == wait {
            return Poll::Ready(None);
        }
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => {
                waits += 1;
                if waits == wait && moment == Moment::Asked { Poll::Ready(None) } else { Poll::Pending }
            }
        }
    })
    .await
}
