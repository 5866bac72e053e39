//! The one connection of a gate: made in the background, given up when it fails, and left alone while Redis is in trouble.

use super::server::{Server, Wire};
use crate::gate::health::Health;
use redis::{ErrorKind, Pipeline, RedisError, ServerErrorKind};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tracing::{info, warn};

#[derive(Debug)]
pub(super) struct Link {
    namespace: String,
    server: Server,
    slot: Mutex<Slot>,
    health: Health,
    /// Apart from the rest: a Redis that is full, or a replica, refuses to write and still answers.
    writes: Health,
    values: Health,
}

#[derive(Default)]
struct Slot {
    wire: Option<Wire>,
    connecting: bool,
    /// Counts connections, so that the failure of an old one says nothing about the one that came after it.
    generation: u64,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("connected", &self.wire.is_some()).finish_non_exhaustive()
    }
}

/// How a command is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) timeout: Duration,
    pub(super) rest: Duration,
}

/// What commands do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

impl Link {
    pub(super) fn new(namespace: String, server: Server) -> Arc<Self> {
        Arc::new(Self {
            namespace,
            server,
            slot: Mutex::default(),
            health: Health::default(),
            writes: Health::default(),
            values: Health::default(),
        })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The answer to the commands, if there is one in time.
    pub(super) async fn ask<T: redis::FromRedisValue>(
        self: &Arc<Self>,
        kind: Kind,
        commands: &Pipeline,
        patience: Patience,
    ) -> Option<T> {
        // Without tokio there is no timer.
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        if !self.health.may_ask(patience.rest) {
            return None;
        }
        let Some((mut wire, generation)) = self.wire() else {
            drop(self.start_connecting(&runtime, patience.rest));
            return None;
        };
        if kind == Kind::Write && !self.writes.may_ask(patience.rest) {
            return None;
        }
        match tokio::time::timeout(patience.timeout, wire.query(commands)).await {
            Ok(Ok(answer)) => {
                self.answered(kind, generation);
                Some(answer)
            }
            Ok(Err(error)) => {
                self.refused(kind, generation, &error, patience.rest);
                None
            }
            Err(_) => {
                self.lost(generation, &format!("no answer within {:?}", patience.timeout), patience.rest);
                None
            }
        }
    }

    fn wire(&self) -> Option<(Wire, u64)> {
        let slot = self.slot();
        Some((slot.wire.clone()?, slot.generation))
    }

    /// Begins to connect, unless somebody does. What is returned ends with the attempt.
    pub(super) fn start_connecting(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Handle,
        rest: Duration,
    ) -> Option<tokio::task::JoinHandle<()>> {
        let mut slot = self.slot();
        if slot.connecting || slot.wire.is_some() {
            return None;
        }
        slot.connecting = true;
        let connecting = Connecting(Arc::clone(self));
        Some(runtime.spawn(async move {
            let link = &connecting.0;
            match link.server.connect().await {
                Ok(wire) => {
                    let mut slot = link.slot();
                    slot.wire = Some(wire);
                    slot.generation += 1;
                    drop(slot);
                    // Whether it is well again, the first answer shows.
                    link.health.ask_at_once();
                }
                Err(error) => link.trouble(&error, rest),
            }
        }))
    }

    fn answered(&self, kind: Kind, generation: u64) {
        if self.slot().generation != generation {
            return;
        }
        if let Some(lasted) = self.health.answered() {
            info!(target: "idem", { idem.gate = self.namespace, ?lasted }, "the gate is well again: Redis answers");
        }
        if kind == Kind::Write
            && let Some(lasted) = self.writes.answered()
        {
            info!(target: "idem", { idem.gate = self.namespace, ?lasted }, "the gate is well again: Redis writes");
        }
    }

    /// Redis answered with an error.
    fn refused(&self, kind: Kind, generation: u64, error: &RedisError, rest: Duration) {
        let codes = error.clone().into_server_errors();
        let is_answer =
            codes.is_some() || matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::UnexpectedReturnType);
        let wrong_type = codes.is_some_and(|codes| codes.iter().any(|(_, error)| error.code() == "WRONGTYPE"))
            || error.kind() == ErrorKind::UnexpectedReturnType;
        if wrong_type {
            // That key is another program's; the others are none the worse.
            self.answered(Kind::Read, generation);
            self.not_ours(&error.to_string());
        } else if is_answer && kind == Kind::Write {
            if error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly) {
                // What was the master may be a replica now, and the name lead to another server.
                self.give_up(generation);
            }
            if self.writes.failed(rest) {
                warn!(
                    target: "idem",
                    { idem.gate = self.namespace, %error },
                    "the gate is in trouble: Redis refuses to write; what it does not know the store decides"
                );
            }
        } else {
            self.lost(generation, &error.to_string(), rest);
        }
    }

    /// The connection is no good.
    fn lost(&self, generation: u64, error: &str, rest: Duration) {
        if self.give_up(generation) {
            self.trouble(error, rest);
        }
    }

    /// Drops a connection. Whether it was the one in use.
    fn give_up(&self, generation: u64) -> bool {
        let mut slot = self.slot();
        slot.generation == generation && slot.wire.take().is_some()
    }

    fn trouble(&self, error: &str, rest: Duration) {
        if self.health.failed(rest) {
            warn!(
                target: "idem",
                { idem.gate = self.namespace, error },
                "the gate is in trouble and is left alone: Redis does not answer; the store decides"
            );
        }
    }

    /// A key holds what the gate did not write. Said once a minute at most.
    pub(super) fn not_ours(&self, what: &str) {
        const QUIET: Duration = Duration::from_mins(1);
        let say = if self.values.is_troubled() { self.values.may_ask(QUIET) } else { self.values.failed(QUIET) };
        if say {
            warn!(
                target: "idem",
                { idem.gate = self.namespace, error = what },
                "a key of the gate holds what it did not write; the store decides. Is the namespace used by another program?"
            );
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt to connect; it may end with its runtime.
struct Connecting(Arc<Link>);

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.slot().connecting = false;
    }
}
