//! PostgreSQL (12 or later, for COMMIT AND CHAIN).

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
        Backend, Claimed, CloseError, Entry, Instant, Issue, IssuedToken, Kept, Record, Trouble, columns_of, depth,
        server_pool, start_rollback,
    },
    schema::{Part, Table},
};
use crate::{
    error::{ConfigurationError, Ending},
    guard::InsertInto,
    key::{Fingerprint, Key, hex},
    unit::AttemptToken,
};
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqlSafeStr as _, SqlStr,
    postgres::{PgArguments, PgDatabaseError, PgPool, PgRow},
};
use std::borrow::Cow;

const MIGRATION: &str = concat!(
    include_str!("../../../migrations/postgres/0001_idem_records.sql"),
    include_str!("../../../migrations/postgres/0002_idem_tokens.sql"),
    include_str!("../../../migrations/postgres/0003_idem_leases.sql"),
    include_str!("../../../migrations/postgres/0004_idem_attempts.sql"),
);

/// Seals and commits in one trip. AND CHAIN opens an empty transaction, which the ROLLBACK that sqlx queues then
/// ends: sqlx's depth comes down without a trip of its own, and without "no transaction in progress" in the server's
/// log.
const CLOSE: &str = "RELEASE SAVEPOINT idem_guard; COMMIT AND CHAIN";

impl Connection for PgConnection {}

pub(crate) struct Statements {
    begin: SqlStr,
    claim: SqlStr,
    look_up: SqlStr,
    issue: SqlStr,
    issued: SqlStr,
    table: String,
    retention_ms: i64,
}

impl Statements {
    fn new(settings: &Settings) -> Self {
        let table = settings.table.quoted('"');
        // The level is set twice. Where other code left a transaction open on the connection, BEGIN of another level
        // than it has is an error, and not just a warning before a unit inside somebody else's transaction.
        let level = settings.isolation.sql().map_or(String::new(), |level| {
            let other = if level == "SERIALIZABLE" { "REPEATABLE READ" } else { "SERIALIZABLE" };
            format!(" ISOLATION LEVEL {other}; SET TRANSACTION ISOLATION LEVEL {level}")
        });
        // 0 would mean "wait for ever".
        let lock_wait = settings.lock_wait.as_millis().clamp(1, i32::MAX as u128);
        let begin = format!("BEGIN{level}; SET LOCAL lock_timeout = {lock_wait}; SAVEPOINT idem_guard");
        let record = format!(
            "delivery_id, attempt, {}, {}, {}, fingerprint, result",
            millis("claimed_at"),
            millis("keep_until"),
            millis("clock_timestamp()")
        );
        // One statement, so that a repeat costs one trip. Its second half sees only rows from before the statement:
        // when the claim waited for another transaction that then committed, it gives no row, and `look_up` reads it.
        let claim = format!(
            "WITH claim AS (\
               INSERT INTO {table} (scope, action_key, delivery_id, attempt, message, fingerprint, claimed_at, keep_until) \
               VALUES ($1, $2, $3, $4, $5, $7, clock_timestamp(), clock_timestamp() + $6::bigint * interval '1 millisecond') \
               ON CONFLICT (scope, action_key) DO NOTHING RETURNING attempt) \
             SELECT true, NULL::text, attempt, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea FROM claim \
             UNION ALL \
             SELECT false, {record} FROM {table} \
             WHERE scope = $1 AND action_key = $2 AND NOT EXISTS (SELECT FROM claim)"
        );
        let look_up = format!("SELECT false, {record} FROM {table} WHERE scope = $1 AND action_key = $2");
        let tokens = Table::new(&settings.table, Part::Tokens).name.quoted('"');
        let issue = format!(
            "INSERT INTO {tokens} (scope, action_key, issued_at, expires_at, keep_until) VALUES \
             ($1, $2, clock_timestamp(), clock_timestamp() + $3::bigint * interval '1 millisecond', \
              clock_timestamp() + $4::bigint * interval '1 millisecond')"
        );
        let issued = format!(
            "SELECT scope, {}, {} FROM {tokens} WHERE action_key = $1",
            millis("expires_at"),
            millis("clock_timestamp()")
        );
        Self {
            begin: AssertSqlSafe(begin).into_sql_str(),
            claim: AssertSqlSafe(claim).into_sql_str(),
            look_up: AssertSqlSafe(look_up).into_sql_str(),
            issue: AssertSqlSafe(issue).into_sql_str(),
            issued: AssertSqlSafe(issued).into_sql_str(),
            table,
            retention_ms: i64::try_from(settings.retention.as_millis()).unwrap_or(i64::MAX),
        }
    }
}

/// An instant as milliseconds since the Unix epoch.
fn millis(instant: &str) -> String {
    format!("(extract(epoch FROM {instant}) * 1000)::bigint")
}

impl Statements {
    fn keep_and_close(&self, kept: &Kept<'_>) -> String {
        let text = |text: &str| format!("convert_from('\\x{}', 'UTF8')", hex(text.as_bytes()));
        format!(
            "RELEASE SAVEPOINT idem_guard; UPDATE {} SET result = '\\x{}' WHERE scope = {} AND action_key = {}; \
             COMMIT AND CHAIN",
            self.table,
            hex(kept.result),
            text(kept.key.scope_name()),
            text(kept.key.text()),
        )
    }
}

impl Backend for PgConnection {
    const NAME: &'static str = "PostgreSQL";
    const ENDS_TRANSACTIONS: bool = false;
    type Statements = Statements;
    type Keeper = ();

    fn statements(settings: &Settings) -> Statements {
        Statements::new(settings)
    }

    async fn open_pool(url: &str, settings: &Settings) -> Result<PgPool, sqlx::Error> {
        server_pool::<Self>(settings).connect(url).await
    }

    async fn keeper(_: &PgPool) -> Result<(), ConfigurationError> {
        Ok(())
    }

    async fn claim(&mut self, statements: &Statements, entry: &Entry<'_>) -> Result<Claimed, sqlx::Error> {
        // The depth that this leaves at 1 makes a `begin()` in the body a savepoint. The guard that sqlx would roll
        // back with is not wanted: the unit closes the connection instead.
        std::mem::forget(self.begin_with(statements.begin.clone()).await?);
        let row = sqlx::query(statements.claim.clone())
            .bind(entry.key.scope_name())
            .bind(entry.key.text())
            .bind(entry.key.delivery_id())
            .bind(entry.attempt.as_bytes())
            .bind(entry.key.message())
            .bind(statements.retention_ms)
            .bind(entry.key.fingerprint().map(Fingerprint::as_bytes))
            .fetch_optional(&mut *self)
            .await?;
        let record = match row {
            Some(row) if row.try_get::<bool, _>(0)? => return Ok(Claimed::First),
            Some(row) => Some(record(&row)?),
            None => look_up(self, statements, entry.key).await?,
        };
        // Nothing was written, so how this transaction ends does not matter.
        start_rollback(self);
        Ok(record.map_or(Claimed::Gone, Claimed::Repeat))
    }

    async fn begin_unit(&mut self, statements: &Statements) -> Result<(), sqlx::Error> {
        self.begin_with(statements.begin.clone()).await.map(std::mem::forget)
    }

    fn placeholder(number: usize) -> Cow<'static, str> {
        format!("${number}").into()
    }

    async fn run_guard(&mut self, sql: &str, arguments: PgArguments) -> Result<u64, sqlx::Error> {
        let guard = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments);
        guard.execute(self).await.map(|done| done.rows_affected())
    }

    async fn finds(&mut self, sql: &str, arguments: PgArguments) -> Result<bool, sqlx::Error> {
        let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments);
        query.fetch_optional(self).await.map(|row| row.is_some())
    }

    async fn is_conflict_on(
        &mut self,
        error: &sqlx::Error,
        into: &InsertInto<'_>,
        index: &str,
    ) -> Result<bool, sqlx::Error> {
        let Some(error) = error.as_database_error().filter(|error| error.is_unique_violation()) else {
            return Ok(false);
        };
        // A trigger may have written into another table, in another schema under the same names: the conflict's index must
        // be one of the guard's table. A partition reports itself, and its index has the name of the whole's among its
        // ancestors.
        let found: Vec<(Vec<String>, Vec<String>)> = sqlx::query_as(
            "SELECT ARRAY(SELECT a.relname::text FROM pg_class a WHERE a.oid = c.oid \
                 OR a.oid IN (SELECT pg_partition_ancestors(c.oid::regclass))), \
               ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = t.oid AND i.indexprs IS NULL \
                 AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])) \
             FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid \
               JOIN pg_namespace n ON n.oid = t.relnamespace \
             WHERE c.relname = $1 AND t.relname = $2 AND n.nspname = $3 AND i.indisunique \
               AND (t.oid = to_regclass($4) OR t.oid IN (SELECT relid FROM pg_partition_tree(to_regclass($4))))",
        )
        .bind(error.constraint())
        .bind(error.table())
        .bind(error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::schema))
        .bind(into.written)
        .fetch_all(self)
        .await?;
        let wanted = columns_of(index);
        Ok(found
            .into_iter()
            .any(|(names, columns)| names.iter().any(|name| name == index) || columns_of(&columns.join(",")) == wanted))
    }

    async fn issue_token(&mut self, statements: &Statements, issue: &Issue<'_>) -> Result<(), sqlx::Error> {
        sqlx::query(statements.issue.clone())
            .bind(issue.scope)
            .bind(issue.key)
            .bind(i64::try_from(issue.valid_for.as_millis()).unwrap_or(i64::MAX))
            .bind(i64::try_from(issue.keep_for.as_millis()).unwrap_or(i64::MAX))
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
        roll_back_all(self).await
    }

    async fn close_unit(&mut self, statements: &Statements, kept: Option<&Kept<'_>>) -> Result<(), CloseError> {
        // The result goes in the same trip, as text: hexadecimal literals, in which nothing can be taken for SQL.
        let close = match kept {
            None => CLOSE.into_sql_str(),
            Some(kept) => AssertSqlSafe(statements.keep_and_close(kept)).into_sql_str(),
        };
        match self.execute(sqlx::raw_sql(close)).await {
            Ok(_) => {
                start_rollback(self);
                Ok(())
            }
            Err(error) => Err(match code(&error).as_deref() {
                Some("25P02") => CloseError::Unsealed(Ending::ErrorSwallowed),
                Some("25P01" | "3B001") => CloseError::Unsealed(Ending::Ended),
                // Classes 57, 58 and XX are the server going away; anything else is a COMMIT refused.
                Some(code) if !["08", "57", "58", "XX"].contains(&code.get(..2).unwrap_or_default()) => {
                    CloseError::RolledBack(error)
                }
                _ => CloseError::Unknown(error),
            }),
        }
    }

    async fn roll_back_unit(&mut self, _: &Statements) -> Result<bool, sqlx::Error> {
        // Savepoints that the body leaked stand inside the guard, so they go first.
        while depth(self) > 1 {
            start_rollback(self);
        }
        let ours = match self.execute("ROLLBACK TO SAVEPOINT idem_guard").await {
            Ok(_) => true,
            Err(error) if matches!(code(&error).as_deref(), Some("25P01" | "3B001")) => false,
            Err(error) => return Err(error),
        };
        roll_back_all(self).await?;
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
            sqlx::Error::Database(_) => match code(error).as_deref() {
                Some("40001" | "40P01") => Trouble::Conflict,
                // 57014 is a statement timeout shorter than the lock wait.
                Some("55P03" | "57014") => Trouble::LockWait,
                Some("42P01") => Trouble::NoTable,
                // Class 25: other code left a transaction open on this connection.
                Some(code) if ["08", "25", "53", "57", "58"].contains(&code.get(..2).unwrap_or_default()) => {
                    Trouble::Connection
                }
                _ => Trouble::Other,
            },
            sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::BeginFailed
            | sqlx::Error::InvalidSavePointStatement => Trouble::Connection,
            _ => Trouble::Other,
        }
    }

    async fn migrate(&mut self, settings: &Settings) -> Result<(), sqlx::Error> {
        let sql = Self::migration_sql(settings);
        let mut transaction = self.begin().await?;
        // CREATE .. IF NOT EXISTS of two instances at once fails in one of them; the number is arbitrary, and ours.
        transaction.execute("SELECT pg_advisory_xact_lock(7236101846)").await?;
        transaction.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
        transaction.commit().await
    }

    fn migration_sql(settings: &Settings) -> String {
        settings.table.place_in(MIGRATION, '"')
    }

    async fn inspect(&mut self, table: &Table) -> Result<Option<Vec<String>>, sqlx::Error> {
        inspect::inspect(self, table).await
    }
}

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(std::borrow::Cow::into_owned)
}

fn record(row: &PgRow) -> Result<Record, sqlx::Error> {
    Ok(Record {
        delivery_id: row.try_get(1)?,
        attempt: AttemptToken::from_bytes(row.try_get(2)?),
        claimed_at: Instant(row.try_get(3)?),
        keep_until: Instant(row.try_get(4)?),
        now: Instant(row.try_get(5)?),
        fingerprint: row.try_get(6)?,
        result: row.try_get(7)?,
    })
}

async fn look_up(
    connection: &mut PgConnection,
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

async fn roll_back_all(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    if depth(connection) == 0 {
        // BEGIN failed half way; sqlx does not know that anything is open.
        return connection.execute("ROLLBACK").await.map(|_| ());
    }
    start_rollback(connection);
    connection.ping().await
}
