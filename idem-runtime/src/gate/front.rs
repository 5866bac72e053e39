//! What stands between a store and its gate, so that no gate can do harm.

use super::{Begin, Finished, Gate, GateFuture, InFlight, Look, health::Health};
use crate::{key::Key, unit::within};
use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
    time::Duration,
};
use tracing::{info, warn};

/// How long a delivery waits for a gate.
const LIMIT: Duration = Duration::from_secs(1);
/// How long a gate is left alone that did not answer, or panicked.
const REST: Duration = Duration::from_secs(1);

/// A gate that answers in time, and does not panic, whatever the gate behind it does.
#[derive(Debug)]
pub(crate) struct Front {
    gate: Box<dyn Gate>,
    health: Health,
}

impl Front {
    pub(crate) fn new(gate: impl Gate) -> Self {
        Self { gate: Box::new(gate), health: Health::default() }
    }

    pub(crate) async fn look(&self, key: &Key) -> Look {
        self.ask(|gate| gate.look(key)).await.unwrap_or(Look::Unknown)
    }

    pub(crate) async fn remember(&self, key: &Key, finished: &Finished, keep: Duration) {
        self.ask(|gate| gate.remember(key, finished, keep)).await;
    }

    pub(crate) async fn begin(&self, key: &Key, mine: &InFlight) -> Begin {
        self.ask(|gate| gate.begin(key, mine)).await.unwrap_or(Begin::Go)
    }

    pub(crate) async fn release(&self, key: &Key, mine: &InFlight) {
        self.ask(|gate| gate.release(key, mine)).await;
    }

    pub(crate) async fn forget(&self, key: &Key) {
        self.ask(|gate| gate.forget(key)).await;
    }

    async fn ask<'a, T>(&'a self, ask: impl FnOnce(&'a dyn Gate) -> GateFuture<'a, T>) -> Option<T> {
        if !self.health.may_ask(REST) {
            return None;
        }
        let trouble = match within(LIMIT, caught(|| ask(&*self.gate))).await {
            Some(Ok(answer)) => {
                if let Some(lasted) = self.health.answered() {
                    info!(target: "idem", { ?lasted }, "the gate answers again");
                }
                return Some(answer);
            }
            Some(Err(panic)) => format!("it panicked: {panic}"),
            None => format!("it did not answer within {LIMIT:?}"),
        };
        if self.health.failed(REST) {
            warn!(target: "idem", { error = trouble }, "the gate is in trouble and is left alone; the store decides");
        }
        None
    }
}

/// The text of the panic, when the gate panics.
async fn caught<'a, T>(ask: impl FnOnce() -> GateFuture<'a, T>) -> Result<T, String> {
    let mut answer = catch_unwind(AssertUnwindSafe(ask)).map_err(|panic| text(&*panic))?;
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
        Err(panic) => Poll::Ready(Err(text(&*panic))),
    })
    .await
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("with no text").to_owned()
}
