//! A store as a log of attempts.

use super::{Connection, Held, Part, Store, Table};
use crate::{
    consume::{AttemptLog, Counted, LogFuture},
    error::Busy,
    key::hex,
    unit::{no_answer, within},
};
use sha2::{Digest as _, Sha256};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// Longest scope, in bytes.
const MAX_SCOPE_BYTES: usize = 255;

/// What is counted.
pub(crate) struct Counting<'a> {
    pub(crate) scope: Cow<'a, str>,
    pub(crate) message: &'a str,
    pub(crate) least: u32,
    pub(crate) keep_for: Duration,
}

impl<C: Connection> Store<C> {
    fn counting<'a>(&self, source: &'a str, message: &'a str, least: u32) -> Counting<'a> {
        let scope = if source.len() > MAX_SCOPE_BYTES { hex(&Sha256::digest(source)).into() } else { source.into() };
        Counting { scope, message, least, keep_for: self.settings().retention.as_duration() }
    }

    fn attempts_table(&self) -> Table {
        Table::new(&self.settings().table, Part::Attempts)
    }

    /// A connection that may write, for a statement outside any unit.
    async fn acquire_for_count(&self) -> Result<Held<C>, Box<dyn std::error::Error + Send + Sync>> {
        let lock_wait = self.settings().lock_wait;
        let turn = match self.turn() {
            // The semaphore is never closed.
            Some(turn) => Some(
                within(lock_wait, Arc::clone(turn).acquire_owned())
                    .await
                    .and_then(Result::ok)
                    .ok_or(Busy::Claimed(lock_wait))?,
            ),
            None => None,
        };
        Ok(Held::acquire(self.pool(), turn).await?)
    }
}

impl<C: Connection> AttemptLog for Store<C> {
    fn begin<'a>(&'a self, source: &'a str, message: &'a str, least: u32) -> LogFuture<'a, Counted> {
        Box::pin(async move {
            self.ready(Part::Attempts).await?;
            let mut held = self.acquire_for_count().await?;
            let (table, counting) = (self.attempts_table(), self.counting(source, message, least));
            let counted = within(self.settings().answer_timeout, held.connection().count_attempt(&table, &counting));
            let (attempts, first_at) = counted.await.unwrap_or_else(|| Err(no_answer()))?;
            held.set_clean();
            Ok(Counted::new(u32::try_from(attempts).unwrap_or(u32::MAX), first_at.into()))
        })
    }

    fn end<'a>(&'a self, source: &'a str, message: &'a str) -> LogFuture<'a, ()> {
        Box::pin(async move {
            let mut held = self.acquire_for_count().await?;
            let (table, counting) = (self.attempts_table(), self.counting(source, message, 0));
            let forgotten =
                within(self.settings().answer_timeout, held.connection().forget_attempts(&table, &counting));
            forgotten.await.unwrap_or_else(|| Err(no_answer()))?;
            held.set_clean();
            Ok(())
        })
    }
}
