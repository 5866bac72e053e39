//! SQLite.
//!
//! There are no trips to save here, so each step is a statement of its own. One unit writes at a time: waiting for the
//! turn in the store is fair, while SQLite's own busy handler polls and lets some wait for seconds.

use super::{
    Connection, Settings,
    backend::{Backend, Claimed, CloseError, Entry, Record, Trouble, commit, depth, start_rollback},
    settings::TableName,
};
use crate::{
    error::{ConfigurationError, Ending},
    key::Key,
    unit::AttemptToken,
};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _, SqlSafeStr as _, SqlStr,
    SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow},
};
use std::{str::FromStr as _, sync::Mutex, time::Duration};

const MIGRATION: &str = include_str!("../../migrations/sqlite/0001_idem_records.sql");

/// What the file name of a database in memory looks like once sqlx has parsed `sqlite::memory:`.
const SHARED_MEMORY: &str = "file:sqlx-in-memory-";

impl Connection for SqliteConnection {}

pub(crate) struct Statements {
    claim: SqlStr,
    look_up: SqlStr,
    retention: String,
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
            "INSERT INTO {table} (scope, action_key, delivery_id, attempt, message, claimed_at, keep_until) \
             VALUES (?1, ?2, ?3, ?4, ?5, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?6)) \
             ON CONFLICT (scope, action_key) DO NOTHING"
        );
        let look_up = format!(
            "SELECT delivery_id, attempt, CAST(round((julianday(claimed_at) - 2440587.5) * 86400000) AS INTEGER), \
             keep_until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM {table} WHERE scope = ?1 AND action_key = ?2"
        );
        let retention_ms = settings.retention.as_millis();
        Statements {
            claim: AssertSqlSafe(claim).into_sql_str(),
            look_up: AssertSqlSafe(look_up).into_sql_str(),
            retention: format!("+{}.{:03} seconds", retention_ms / 1000, retention_ms % 1000),
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

    async fn reset(&mut self, _: &Statements) -> Result<(), sqlx::Error> {
        if depth(self) > 0 {
            start_rollback(self);
            self.ping().await?;
        }
        Ok(())
    }

    async fn close_unit(&mut self, _: &Statements) -> Result<(), CloseError> {
        match self.execute("RELEASE SAVEPOINT idem_guard").await {
            Ok(_) => {}
            Err(error @ sqlx::Error::Database(_)) if is_plain_error(&error) => {
                return Err(CloseError::Unsealed(Ending::Ended));
            }
            Err(error) => return Err(CloseError::Unknown(error)),
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
        match settings.table.schema() {
            Some(schema) => {
                let (index, table) = (format!("{}_keep_until", settings.table.name()), settings.table.quoted('"'));
                sql.replace(
                    &format!("{index} ON {table}"),
                    &format!("\"{schema}\".{index} ON \"{}\"", settings.table.name()),
                )
            }
            None => sql,
        }
    }

    async fn inspect(&mut self, settings: &Settings) -> Result<Option<Vec<String>>, sqlx::Error> {
        inspect(self, &settings.table).await
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
        claimed_at: row.try_get(2)?,
        late: row.try_get(3)?,
    })
}

async fn inspect(connection: &mut SqliteConnection, table: &TableName) -> Result<Option<Vec<String>>, sqlx::Error> {
    let quoted = table.quoted('"');
    let schema = table.schema().unwrap_or("main");
    let columns = sqlx::query("SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(?1, ?2)")
        .bind(table.name())
        .bind(schema)
        .fetch_all(&mut *connection)
        .await?;
    if columns.is_empty() {
        return Ok(None);
    }
    let mut faults = Vec::new();
    for (name, kind, key) in [
        ("scope", "TEXT", true),
        ("action_key", "TEXT", true),
        ("delivery_id", "TEXT", false),
        ("attempt", "BLOB", false),
        ("fingerprint", "BLOB", false),
        ("message", "TEXT", false),
        ("result", "BLOB", false),
        ("claimed_at", "TEXT", false),
        ("keep_until", "TEXT", false),
    ] {
        let mut found = None;
        for row in &columns {
            if row.try_get::<String, _>(0)?.eq_ignore_ascii_case(name) {
                found = Some(row);
            }
        }
        let Some(row) = found else {
            faults.push(format!("it has no column `{name}`"));
            continue;
        };
        let found: String = row.try_get(1)?;
        // With another affinity '007' and '7' are one number.
        if !found.eq_ignore_ascii_case(kind) {
            faults.push(format!("its column `{name}` is {found:?}, and must be {kind}"));
        }
        if key && row.try_get::<i64, _>(2)? == 0 {
            faults.push(format!("its column `{name}` may be null, and nulls never conflict; make it NOT NULL"));
        }
    }

    let indexes = sqlx::query("SELECT name FROM pragma_index_list(?1, ?2) WHERE \"unique\" = 1 AND partial = 0")
        .bind(table.name())
        .bind(schema)
        .fetch_all(&mut *connection)
        .await?;
    let mut unique = false;
    let mut loose = false;
    for index in indexes {
        let columns = sqlx::query(
            "SELECT coalesce(lower(name), ''), coll FROM pragma_index_xinfo(?1, ?2) WHERE key = 1 ORDER BY 1",
        )
        .bind(index.try_get::<String, _>(0)?)
        .bind(schema)
        .fetch_all(&mut *connection)
        .await?;
        let mut names = Vec::new();
        let mut exact = true;
        for column in &columns {
            names.push(column.try_get::<String, _>(0)?);
            exact &= column.try_get::<String, _>(1)?.eq_ignore_ascii_case("BINARY");
        }
        if names == ["action_key", "scope"] {
            unique |= exact;
            loose |= !exact;
        }
    }
    let repair = format!(
        "run: CREATE UNIQUE INDEX {}_action ON {quoted} (scope COLLATE BINARY, action_key COLLATE BINARY)",
        table.name()
    );
    if loose {
        faults.push(
            "its unique index on (scope, action_key) has a collation under which different keys are equal; \
             make the table again with COLLATE BINARY"
                .to_owned(),
        );
    } else if !unique {
        faults.push(format!("it has no unique index on exactly (scope, action_key); {repair}"));
    }
    Ok(Some(faults))
}
