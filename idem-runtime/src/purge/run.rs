//! One run: batch after batch, table after table.

use super::{Archived, Progress, Purge, PurgeError, Purged};
use crate::{
    error::ConfigurationError,
    store::{Connection, Due, Held, Part, Purging, Store, Table, Trouble, depth},
    unit::{Backoff, no_answer, within},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// How often a batch is tried before the run gives up over locks. With the pauses about 4 seconds, and for each try up to
/// the lock wait.
const TRIES: u32 = 6;

/// Whether the run is to end before its next batch: when the other side is gone.
pub(super) struct Stop(Option<watch::Receiver<()>>);

impl Stop {
    pub(super) const fn never() -> Self {
        Self(None)
    }

    pub(super) const fn when_dropped(other_side: watch::Receiver<()>) -> Self {
        Self(Some(other_side))
    }

    /// Waits, and says whether to stop; no longer than until then.
    pub(super) async fn pause(&mut self, pause: Duration) -> bool {
        // tokio's timer needs tokio; on another runtime of sqlx's the next batch starts at once.
        if tokio::runtime::Handle::try_current().is_err() {
            return false;
        }
        let Some(other_side) = &mut self.0 else {
            tokio::time::sleep(pause).await;
            return false;
        };
        // Nothing is ever sent, so this ends with the other side.
        tokio::time::timeout(pause, other_side.changed()).await.is_ok()
    }
}

/// What one try at a batch came to.
struct Batch {
    /// Rows that were due; fewer than asked for when these were the last ones.
    found: u64,
    deleted: u64,
    took: Duration,
}

/// Why a try came to nothing.
enum Failed {
    Trouble(sqlx::Error),
    /// The writer's turn did not come.
    Turn,
    For(PurgeError),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Trouble(error)
    }
}

/// Purges the tables of a store. What was deleted is counted as it goes, so that it is known after an error too.
pub(super) async fn run<C: Connection>(
    store: &Store<C>,
    purge: &mut Purge<'_>,
    purged: &mut Purged,
    stop: &mut Stop,
) -> Result<(), PurgeError> {
    for part in Part::ALL {
        let table = Table::new(&store.settings().table, part);
        loop {
            let left = purge.at_most.saturating_sub(purged.rows());
            let most = u32::try_from(left).unwrap_or(u32::MAX).min(purge.batch);
            if most == 0 {
                return Ok(());
            }
            let due = Due { table: &table, grace: purge.grace, most, lock_wait: store.settings().lock_wait };
            let Some(batch) = batch(store, purge, &due).await? else { break };
            count(purge, purged, part, &batch);
            if batch.found < u64::from(most) {
                break;
            }
            if stop.pause(purge.pause).await {
                return Ok(());
            }
        }
        if stop.pause(Duration::ZERO).await {
            return Ok(());
        }
    }
    Ok(())
}

fn count(purge: &mut Purge<'_>, purged: &mut Purged, part: Part, batch: &Batch) {
    if batch.deleted == 0 {
        return;
    }
    *match part {
        Part::Records => &mut purged.records,
        Part::Tokens => &mut purged.tokens,
        Part::Leases => &mut purged.leases,
        Part::Attempts => &mut purged.attempts,
    } += batch.deleted;
    purged.batches += 1;
    purged.longest_batch = purged.longest_batch.max(batch.took);
    if let Some(told) = &mut purge.progress {
        told(&Progress { deleted: purged.rows(), batches: purged.batches, rows: batch.deleted, took: batch.took });
    }
}

/// One batch, tried again where that may help. `None` when there is no such table, and need not be.
async fn batch<C: Connection>(
    store: &Store<C>,
    purge: &mut Purge<'_>,
    due: &Due<'_>,
) -> Result<Option<Batch>, PurgeError> {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    let mut tries = 0;
    // A server that was restarted leaves every pooled connection dead; each is found out once.
    let mut dead_left = store.pool().size() + TRIES;
    let optional = due.table.part() != Part::Records;
    loop {
        let failed = match try_batch(store, purge, due).await {
            Ok(batch) => return Ok(Some(batch)),
            Err(Failed::For(PurgeError::Configuration(ConfigurationError::NoTable { .. }))) if optional => {
                return Ok(None);
            }
            Err(Failed::For(error)) => return Err(error),
            Err(failed) => failed,
        };
        let table = || due.table.to_string();
        match failed {
            Failed::Trouble(source) => match C::trouble(&source) {
                Trouble::NoTable if optional => return Ok(None),
                Trouble::NoTable => {
                    return Err(PurgeError::Configuration(ConfigurationError::NoTable {
                        table: table(),
                        sql: store.migration_sql(),
                    }));
                }
                Trouble::Conflict | Trouble::LockWait => {}
                Trouble::Connection if dead_left > 0 => {
                    dead_left -= 1;
                    backoff.pause().await;
                    continue;
                }
                trouble @ (Trouble::Connection | Trouble::Other) => {
                    let retryable = trouble == Trouble::Connection || matches!(source, sqlx::Error::PoolTimedOut);
                    return Err(PurgeError::Database { table: table(), retryable, source: Box::new(source) });
                }
            },
            Failed::Turn | Failed::For(_) => {}
        }
        tries += 1;
        if tries == TRIES {
            return Err(PurgeError::Busy { table: table(), tries });
        }
        backoff.pause().await;
    }
}

async fn try_batch<C: Connection>(store: &Store<C>, purge: &mut Purge<'_>, due: &Due<'_>) -> Result<Batch, Failed> {
    store.ready(due.table.part()).await.map_err(|error| match error {
        ConfigurationError::Database(error) => Failed::Trouble(*error.source),
        ConfigurationError::Connect(error) => Failed::Trouble(*error),
        error => Failed::For(PurgeError::Configuration(error)),
    })?;
    match &mut purge.archive {
        Some(hook) if matches!(due.table.part(), Part::Records | Part::Leases) => {
            let reader = if C::LOCKS_BATCH { acquire(store).await? } else { acquire_for_reading(store).await? };
            let begun = Instant::now();
            let (found, kept, places) = read(store, reader, due).await?;
            if places.is_empty() {
                return Ok(Batch { found: 0, deleted: 0, took: begun.elapsed() });
            }
            // A connection that is kept has the rows locked; it is closed, and they are kept, when the hook fails.
            hook(found).await.map_err(|error| Failed::For(PurgeError::Archive(error)))?;
            let (mut held, begun) = match kept {
                Some(held) => (held, begun),
                None => (acquire(store).await?, Instant::now()),
            };
            let deleted = in_time(store, held.connection().delete_read(due, &places)).await?;
            let took = begun.elapsed();
            release(held);
            Ok(Batch { found: places.len() as u64, deleted, took })
        }
        _ => {
            let mut held = acquire(store).await?;
            let begun = Instant::now();
            let deleted = in_time(store, held.connection().delete_expired(due)).await?;
            let took = begun.elapsed();
            release(held);
            Ok(Batch { found: deleted, deleted, took })
        }
    }
}

/// A batch that was read, and the connection that has it locked where one has.
type Found<C> = (Vec<Archived>, Option<Held<C>>, Vec<<C as Purging>::Place>);

async fn read<C: Connection>(store: &Store<C>, mut held: Held<C>, due: &Due<'_>) -> Result<Found<C>, Failed> {
    let rows = in_time(store, held.connection().read_expired(due)).await?;
    let (places, archived): (Vec<_>, Vec<_>) = rows.into_iter().map(|row| (row.place, row.archived)).unzip();
    if C::LOCKS_BATCH && !places.is_empty() {
        return Ok((archived, Some(held), places));
    }
    if C::LOCKS_BATCH {
        // Ends the transaction.
        in_time(store, held.connection().delete_read(due, &[])).await?;
    }
    release(held);
    Ok((archived, None, places))
}

async fn in_time<C: Connection, T>(
    store: &Store<C>,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let limit = store.settings().lock_wait.saturating_add(store.settings().answer_timeout);
    within(limit, asked).await.unwrap_or_else(|| Err(no_answer()))
}

/// A connection for a batch; on databases with one writer, in its turn.
async fn acquire<C: Connection>(store: &Store<C>) -> Result<Held<C>, Failed> {
    let turn = match store.turn() {
        Some(turn) => {
            let turn = within(store.settings().lock_wait, Arc::clone(turn).acquire_owned());
            // The semaphore is never closed.
            Some(turn.await.and_then(Result::ok).ok_or(Failed::Turn)?)
        }
        None => None,
    };
    Ok(Held::acquire(store.pool(), turn).await?)
}

async fn acquire_for_reading<C: Connection>(store: &Store<C>) -> Result<Held<C>, Failed> {
    Ok(Held::acquire(store.pool(), None).await?)
}

/// Gives a connection back to the pool when sqlx, too, thinks that nothing is open on it.
fn release<C: Connection>(mut held: Held<C>) {
    if depth(held.connection()) == 0 {
        held.set_clean();
    }
}
