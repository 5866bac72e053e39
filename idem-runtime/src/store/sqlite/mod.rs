//! SQLite.
//!
//! There are no trips to save here, so each step is a statement of its own. One unit writes at a time: waiting for the
//! turn in the store is fair, while SQLite's own busy handler polls and lets some wait for seconds.

#[cfg(feature = "consume")]
mod attempts;
mod inspect;
mod lease;
mod purge;

#[cfg(feature = "consume")]
use super::attempts::Counting;
use super::{
    Connection, Settings,
    backend::{
        Backend, Claimed, CloseError, Entry, Instant, Issue, IssuedToken, Kept, Record, Trouble, columns_of, commit,
        depth, start_rollback,
    },
    schema::{Part, Table},
};
use crate::{
    error::{ConfigurationError, Ending},
    guard::InsertInto,
    key::{Fingerprint, Key},
    unit::AttemptToken,
};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _, SqlSafeStr as _, SqlStr,
    SqliteConnection,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow},
};
use std::{borrow::Cow, str::FromStr as _, sync::Mutex, time::Duration};

const MIGRATION: &str = concat!(
    include_str!("../../../migrations/sqlite/0001_idem_records.sql"),
    include_str!("../../../migrations/sqlite/0002_idem_tokens.sql"),
    include_str!("../../../migrations/sqlite/0003_idem_leases.sql"),
    include_str!("../../../migrations/sqlite/0004_idem_attempts.sql"),
);

/// What the file name of a database in memory looks like once sqlx has parsed `sqlite::memory:`.
const SHARED_MEMORY: &str = "file:sqlx-in-memory-";

impl Connection for SqliteConnection {}

pub(crate) struct Statements {
    claim: SqlStr,
    look_up: SqlStr,
    keep: SqlStr,
    issue: SqlStr,
    issued: SqlStr,
    retention: String,
}

/// An instant as milliseconds since the Unix epoch.
fn millis(instant: &str) -> String {
    format!("CAST(round((julianday({instant}) - 2440587.5) * 86400000) AS INTEGER)")
}

/// A duration as a modifier of SQLite's date functions.
fn after(duration: Duration) -> String {
    let millis = duration.as_millis();
    format!("+{}.{:03} seconds", millis / 1000, millis % 1000)
}

impl Backend for SqliteConnection {
    const NAME: &'static str = "SQLite";
    const ONE_WRITER: bool = true;
    const ENDS_TRANSACTIONS: bool = true;
    type Statements = Statements;
    /// A connection to a database in memory, which would vanish with its last one. It is never used.
    type Keeper = Option<Mutex<SqliteConnection>>;

    fn statements(settings: &Settings) -> Statements {
        let table = settings.table.quoted('"');
        let claim = format!(
            "INSERT INTO {table} (scope, action_key, delivery_id, attempt, message, fingerprint, claimed_at, keep_until) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?7, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?6)) \
             ON CONFLICT (scope, action_key) DO NOTHING"
        );
        let look_up = format!(
            "SELECT delivery_id, attempt, {}, {}, {}, fingerprint, result FROM {table} \
             WHERE scope = ?1 AND action_key = ?2",
            millis("claimed_at"),
            millis("keep_until"),
            millis("'now'")
        );
        let keep = format!("UPDATE {table} SET result = ?3 WHERE scope = ?1 AND action_key = ?2");
        let tokens = Table::new(&settings.table, Part::Tokens).name.quoted('"');
        let issue = format!(
            "INSERT INTO {tokens} (scope, action_key, issued_at, expires_at, keep_until) VALUES (?1, ?2, \
             strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3), \
             strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?4))"
        );
        let issued =
            format!("SELECT scope, {}, {} FROM {tokens} WHERE action_key = ?1", millis("expires_at"), millis("'now'"));
        Statements {
            claim: AssertSqlSafe(claim).into_sql_str(),
            look_up: AssertSqlSafe(look_up).into_sql_str(),
            keep: AssertSqlSafe(keep).into_sql_str(),
            issue: AssertSqlSafe(issue).into_sql_str(),
            issued: AssertSqlSafe(issued).into_sql_str(),
            retention: after(settings.retention.as_duration()),
        }
    }

    async fn open_pool(url: &str, settings: &Settings) -> Result<SqlitePool, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // SQLite counts milliseconds in 32 bits, and sqlx panics beyond.
            .busy_timeout(settings.lock_wait.min(Duration::from_millis(i32::MAX.unsigned_abs().into())));
        SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(settings.acquire_timeout)
            .connect_with(options)
            .await
    }

    async fn keeper(pool: &SqlitePool) -> Result<Self::Keeper, ConfigurationError> {
        let options = pool.connect_options();
        let name = options.get_filename().to_string_lossy();
        if name.starts_with(SHARED_MEMORY) {
            let connection = options.connect().await.map_err(|error| ConfigurationError::Connect(Box::new(error)))?;
            return Ok(Some(Mutex::new(connection)));
        }
        // In memory by another way, the database may be one for each connection.
        let file: String =
            sqlx::query_scalar("SELECT coalesce(max(file), '') FROM pragma_database_list WHERE name = 'main'")
                .fetch_one(pool)
                .await
                .map_err(|error| ConfigurationError::Connect(Box::new(error)))?;
        if file.is_empty() { Err(ConfigurationError::PrivateMemory) } else { Ok(None) }
    }

    async fn claim(&mut self, statements: &Statements, entry: &Entry<'_>) -> Result<Claimed, sqlx::Error> {
        // The depth that this leaves at 1 makes a `begin()` in the body a savepoint. The guard that sqlx would roll
        // back with is not wanted: the unit closes the connection instead.
        std::mem::forget(self.begin_with("BEGIN IMMEDIATE; SAVEPOINT idem_guard").await?);
        let claimed = sqlx::query(statements.claim.clone())
            .bind(entry.key.scope_name())
            .bind(entry.key.text())
            .bind(entry.key.delivery_id())
            .bind(entry.attempt.as_bytes())
            .bind(entry.key.message())
            .bind(&*statements.retention)
            .bind(entry.key.fingerprint().map(Fingerprint::as_bytes))
            .execute(&mut *self)
            .await?
            .rows_affected();
        if claimed == 1 {
            return Ok(Claimed::First);
        }
        let record = look_up(self, statements, entry.key).await?;
        start_rollback(self);
        self.ping().await?;
        Ok(record.map_or(Claimed::Gone, Claimed::Repeat))
    }

    async fn begin_unit(&mut self, _: &Statements) -> Result<(), sqlx::Error> {
        self.begin_with("BEGIN IMMEDIATE; SAVEPOINT idem_guard").await.map(std::mem::forget)
    }

    fn placeholder(_: usize) -> Cow<'static, str> {
        "?".into()
    }

    async fn run_guard(&mut self, sql: &str, arguments: SqliteArguments) -> Result<u64, sqlx::Error> {
        let guard = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments);
        guard.execute(self).await.map(|done| done.rows_affected())
    }

    async fn finds(&mut self, sql: &str, arguments: SqliteArguments) -> Result<bool, sqlx::Error> {
        let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments);
        query.fetch_optional(self).await.map(|row| row.is_some())
    }

    async fn is_conflict_on(
        &mut self,
        error: &sqlx::Error,
        into: &InsertInto<'_>,
        index: &str,
    ) -> Result<bool, sqlx::Error> {
        // SQLITE_CONSTRAINT_UNIQUE and _PRIMARYKEY: "UNIQUE constraint failed: flow.account, flow.biz_no", or for an
        // index on expressions its name: "UNIQUE constraint failed: index 'name'".
        if !matches!(extended_code(error), Some(2067 | 1555)) {
            return Ok(false);
        }
        let message = error.as_database_error().map(sqlx::error::DatabaseError::message).unwrap_or_default();
        let failed = message.strip_prefix("UNIQUE constraint failed: ").unwrap_or_default();
        if failed == format!("index '{index}'") {
            return Ok(true);
        }
        let prefix = format!("{}.", into.table.to_lowercase());
        let lower = failed.to_lowercase();
        let Some(failed) = lower.split(", ").map(|column| column.strip_prefix(&prefix)).collect::<Option<Vec<_>>>()
        else {
            return Ok(false);
        };
        let failed = columns_of(&failed.join(","));
        if failed == columns_of(&index.to_lowercase()) {
            return Ok(true);
        }
        let named: Vec<String> = sqlx::query_scalar(
            "SELECT lower(column.name) FROM pragma_index_list(?1, ?2) AS list, pragma_index_info(list.name, ?2) AS column \
             WHERE list.name = ?3 COLLATE NOCASE AND list.\"unique\"",
        )
        .bind(&into.table)
        .bind(&into.schema)
        .bind(index)
        .fetch_all(self)
        .await?;
        Ok(!named.is_empty() && failed == columns_of(&named.join(",")))
    }

    async fn issue_token(&mut self, statements: &Statements, issue: &Issue<'_>) -> Result<(), sqlx::Error> {
        sqlx::query(statements.issue.clone())
            .bind(issue.scope)
            .bind(issue.key)
            .bind(after(issue.valid_for))
            .bind(after(issue.keep_for))
            .execute(self)
            .await
            .map(|_| ())
    }

    async fn issued_tokens(&mut self, statements: &Statements, key: &str) -> Result<Vec<IssuedToken>, sqlx::Error> {
        let rows = sqlx::query(statements.issued.clone()).bind(key).fetch_all(self).await?;
        rows.iter()
            .map(|row| {
                Ok(IssuedToken {
                    scope: row.try_get(0)?,
                    expires_at: Instant(row.try_get(1)?),
                    now: Instant(row.try_get(2)?),
                })
            })
            .collect()
    }

    #[cfg(feature = "consume")]
    async fn count_attempt(&mut self, table: &Table, counted: &Counting<'_>) -> Result<(i64, Instant), sqlx::Error> {
        attempts::count(self, table, counted).await
    }

    #[cfg(feature = "consume")]
    async fn forget_attempts(&mut self, table: &Table, counted: &Counting<'_>) -> Result<(), sqlx::Error> {
        attempts::forget(self, table, counted).await
    }

    async fn reset(&mut self, _: &Statements) -> Result<(), sqlx::Error> {
        if depth(self) > 0 {
            start_rollback(self);
            self.ping().await?;
        }
        Ok(())
    }

    async fn close_unit(&mut self, statements: &Statements, kept: Option<&Kept<'_>>) -> Result<(), CloseError> {
        match self.execute("RELEASE SAVEPOINT idem_guard").await {
            Ok(_) => {}
            Err(error @ sqlx::Error::Database(_)) if is_plain_error(&error) => {
                return Err(CloseError::Unsealed(Ending::Ended));
            }
            Err(error) => return Err(CloseError::Unknown(error)),
        }
        if let Some(kept) = kept {
            sqlx::query(statements.keep.clone())
                .bind(kept.key.scope_name())
                .bind(kept.key.text())
                .bind(kept.result)
                .execute(&mut *self)
                .await
                .map_err(|error| {
                    if matches!(error, sqlx::Error::Database(_)) {
                        CloseError::RolledBack(error)
                    } else {
                        CloseError::Unknown(error)
                    }
                })?;
        }
        // The depth is counted by sqlx's worker, which may be behind with what the body did; it has answered now. What it
        // still counts are nested transactions that the body leaked. They stood inside the guard and went with it, so
        // the commit goes past sqlx's count, and the caller throws the connection away.
        let committed = if depth(self) == 1 { commit(self).await } else { self.execute("COMMIT").await.map(|_| ()) };
        match committed {
            Ok(()) => Ok(()),
            // SQLITE_BUSY, SQLITE_FULL, SQLITE_CONSTRAINT (checked at commit): not committed. SQLite may keep the
            // transaction open, and the caller throws it away.
            Err(error) if matches!(primary_code(&error), Some(5 | 13 | 19)) => Err(CloseError::RolledBack(error)),
            Err(error) => Err(CloseError::Unknown(error)),
        }
    }

    async fn roll_back_unit(&mut self, _: &Statements) -> Result<bool, sqlx::Error> {
        let ours = match self.execute("ROLLBACK TO SAVEPOINT idem_guard").await {
            Ok(_) => true,
            Err(error) if is_plain_error(&error) => false,
            Err(error) => return Err(error),
        };
        if ours {
            start_rollback(self);
            self.ping().await?;
        } else {
            // A transaction of the body's own making may be open, or none; sqlx's count no longer fits either way,
            // and the unit throws the connection away.
            let _ = self.execute("ROLLBACK").await;
        }
        Ok(ours)
    }

    async fn recorded_attempt(
        &mut self,
        statements: &Statements,
        key: &Key,
    ) -> Result<Option<AttemptToken>, sqlx::Error> {
        Ok(look_up(self, statements, key).await?.and_then(|record| record.attempt))
    }

    fn trouble(error: &sqlx::Error) -> Trouble {
        match error {
            sqlx::Error::Database(database) => match primary_code(error) {
                // SQLITE_BUSY, after the busy timeout; its extended form BUSY_SNAPSHOT is cured by starting again.
                Some(5) if extended_code(error) == Some(517) => Trouble::Conflict,
                Some(5) => Trouble::LockWait,
                // SQLITE_LOCKED: another connection to the same shared cache.
                Some(6) => Trouble::Conflict,
                Some(1) if database.message().starts_with("no such table") => Trouble::NoTable,
                // Other code left a transaction open on this connection.
                Some(1) if database.message().contains("within a transaction") => Trouble::Connection,
                _ => Trouble::Other,
            },
            sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed
            | sqlx::Error::InvalidSavePointStatement => Trouble::Connection,
            _ => Trouble::Other,
        }
    }

    async fn migrate(&mut self, settings: &Settings) -> Result<(), sqlx::Error> {
        self.execute(sqlx::raw_sql(AssertSqlSafe(Self::migration_sql(settings)))).await.map(|_| ())
    }

    fn migration_sql(settings: &Settings) -> String {
        let sql = settings.table.place_in(MIGRATION, '"');
        // SQLite wants the schema at the index's name, and not at the table's.
        let Some(schema) = settings.table.schema() else { return sql };
        Part::ALL.iter().fold(sql, |sql, part| {
            let table = Table::new(&settings.table, *part);
            let index = format!("{}_keep_until ON ", table.name.name());
            let placed = format!("\"{schema}\".{index}\"{}\"", table.name.name());
            sql.replace(&format!("{index}{}", table.name.quoted('"')), &placed)
        })
    }

    async fn inspect(&mut self, table: &Table) -> Result<Option<Vec<String>>, sqlx::Error> {
        inspect::inspect(self, table).await
    }
}

fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    extended_code(error).map(|code| code & 0xff)
}

/// SQLITE_ERROR: what SQLite answers when the savepoint or the transaction is not there.
fn is_plain_error(error: &sqlx::Error) -> bool {
    extended_code(error) == Some(1)
}

async fn look_up(
    connection: &mut SqliteConnection,
    statements: &Statements,
    key: &Key,
) -> Result<Option<Record>, sqlx::Error> {
    sqlx::query(statements.look_up.clone())
        .bind(key.scope_name())
        .bind(key.text())
        .fetch_optional(connection)
        .await?
        .map(|row| record(&row))
        .transpose()
}

fn record(row: &SqliteRow) -> Result<Record, sqlx::Error> {
    Ok(Record {
        delivery_id: row.try_get(0)?,
        attempt: AttemptToken::from_bytes(row.try_get(1)?),
        claimed_at: Instant(row.try_get(2)?),
        keep_until: Instant(row.try_get(3)?),
        now: Instant(row.try_get(4)?),
        fingerprint: row.try_get(5)?,
        result: row.try_get(6)?,
    })
}
