//! Leases in a store's own table.

use super::{
    Resolution,
    ledger::{Asking, Begin, Ledger, Owned, Query, Request},
};
use crate::{
    error::{Busy, ClaimError, ConfigurationError, DatabaseError, Phase},
    key::Key,
    log,
    store::{Connection, LeaseAnswer, LeaseRow, LeaseSql, LeaseStep, NOBODY, Part, Store, Table, Trouble, depth},
    unit::{AttemptToken, Backoff, no_answer, within},
};
use std::time::Duration;

/// How often a statement is repeated over conflicts.
const RESTARTS: u32 = 8;

impl<C: Connection> Store<C> {
    /// Runs a step on a connection of its own, and again where another start cures: conflicts, dead connections. A step
    /// may be run twice, since each change holds the attempt that makes it.
    async fn lease_step(&self, step: LeaseStep) -> Result<LeaseAnswer, ClaimError> {
        let mut dead_left = self.pool().size() + 1;
        self.leases_ready(&mut dead_left).await?;
        let limit = self.settings().lock_wait.saturating_add(self.settings().answer_timeout);
        let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
        let mut conflicts = 0;
        loop {
            let mut held = self.acquire().await?;
            let running = held.connection().run_step(&step);
            let error = match within(limit, running).await.unwrap_or_else(|| Err(no_answer())) {
                Ok(answer) => {
                    if depth(held.connection()) == 0 {
                        held.set_clean();
                    }
                    return Ok(answer);
                }
                Err(error) => error,
            };
            // Its state is not known.
            drop(held);
            match C::trouble(&error) {
                Trouble::Conflict if conflicts == RESTARTS => return Err(Busy::Contended(RESTARTS + 1).into()),
                Trouble::Conflict => {
                    conflicts += 1;
                    log::lease_restarting(&error);
                    backoff.pause().await;
                }
                Trouble::Connection if dead_left == 0 => return Err(failed(true, error)),
                Trouble::Connection => {
                    dead_left -= 1;
                    log::lease_restarting(&error);
                }
                Trouble::LockWait => return Err(Busy::Claimed(self.settings().lock_wait).into()),
                Trouble::NoTable => {
                    return Err(ClaimError::Configuration(ConfigurationError::NoTable {
                        table: Table::new(&self.settings().table, Part::Leases).to_string(),
                        sql: self.migration_sql(),
                    }));
                }
                Trouble::Other => return Err(failed(false, error)),
            }
        }
    }

    async fn leases_ready(&self, dead_left: &mut u32) -> Result<(), ClaimError> {
        while let Err(error) = self.ready(Part::Leases).await {
            match error {
                ConfigurationError::Connect(error) if matches!(*error, sqlx::Error::PoolTimedOut) => {
                    return Err(Busy::NoConnection(self.pool().options().get_acquire_timeout()).into());
                }
                ConfigurationError::Connect(error) => {
                    let retryable = C::trouble(&error) == Trouble::Connection;
                    return Err(failed(retryable, *error));
                }
                ConfigurationError::Database(error)
                    if *dead_left > 0 && C::trouble(&error.source) == Trouble::Connection =>
                {
                    *dead_left -= 1;
                    log::lease_restarting(&error);
                }
                ConfigurationError::Database(error) => return Err(ClaimError::Database(error)),
                error => return Err(ClaimError::Configuration(error)),
            }
        }
        Ok(())
    }

    fn lease_sql(&self) -> LeaseSql<C> {
        LeaseSql::new(self.settings())
    }
}

impl<C: Connection> Ledger for Store<C> {
    fn insert<'a>(&'a self, request: &'a Request) -> Asking<'a, Begin> {
        let step = self.lease_sql().insert(&request.key, request.attempt.as_bytes(), request.lease);
        Box::pin(async move { Ok(begin(self.lease_step(step).await?, 1, 1)) })
    }

    fn take<'a>(&'a self, request: &'a Request, row: &'a LeaseRow) -> Asking<'a, Begin> {
        let step = self.lease_sql().take(&request.key, request.attempt.as_bytes(), request.lease, row.fence);
        Box::pin(async move { Ok(begin(self.lease_step(step).await?, row.fence + 1, row.attempts + 1)) })
    }

    fn renew<'a>(&'a self, owned: &'a Owned) -> Asking<'a, bool> {
        let step = self.lease_sql().renew(&owned.key, owned.attempt.as_bytes(), owned.fence, owned.lease);
        Box::pin(async move { Ok(self.lease_step(step).await?.changed > 0) })
    }

    fn complete<'a>(&'a self, owned: &'a Owned, result: Option<&'a [u8]>) -> Asking<'a, bool> {
        let step = self.lease_sql().complete(&owned.key, owned.attempt.as_bytes(), owned.fence, result);
        Box::pin(async move {
            let answer = self.lease_step(step).await?;
            let ours = |row: &LeaseRow| row.is_done && row.attempt == owned.attempt.as_bytes();
            Ok(answer.changed > 0 || answer.rows.first().is_some_and(ours))
        })
    }

    fn release<'a>(&'a self, key: &'a Key, attempt: AttemptToken) -> Asking<'a, ()> {
        let step = self.lease_sql().release(key, attempt.as_bytes());
        Box::pin(async move { self.lease_step(step).await.map(|_| ()) })
    }

    fn unfinished<'a>(&'a self, query: &'a Query) -> Asking<'a, Vec<LeaseRow>> {
        let after = query.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        let step = self.lease_sql().unfinished(query.older_than, after, query.limit);
        Box::pin(async move { Ok(self.lease_step(step).await?.rows) })
    }

    fn resolve<'a>(&'a self, scope: &'a str, key: &'a str, fence: i64, resolution: Resolution) -> Asking<'a, bool> {
        let done = resolution == Resolution::Done;
        let step = self.lease_sql().resolve(scope, key, fence, done);
        Box::pin(async move {
            let answer = self.lease_step(step).await?;
            // The answer to an earlier try was lost.
            let ours = |row: &LeaseRow| done && row.is_done && row.fence == fence && row.attempt == NOBODY;
            Ok(answer.changed > 0 || answer.rows.first().is_some_and(ours))
        })
    }

    fn patience(&self) -> Duration {
        self.settings().lock_wait.saturating_add(self.settings().answer_timeout)
    }
}

fn begin(answer: LeaseAnswer, fence: i64, attempts: i64) -> Begin {
    if answer.changed > 0 {
        return Begin::Began { fence, attempts };
    }
    answer.rows.into_iter().next().map_or(Begin::Gone, |row| Begin::Row(Box::new(row)))
}

fn failed(retryable: bool, error: sqlx::Error) -> ClaimError {
    ClaimError::Database(DatabaseError { phase: Phase::Lease, retryable, source: Box::new(error) })
}
