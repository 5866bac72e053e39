//! MySQL and MariaDB.

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
    key::{Key, hex},
    unit::AttemptToken,
};
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, Row as _,
    mysql::{MySqlArguments, MySqlDatabaseError, MySqlPool, MySqlRow},
};
use std::{borrow::Cow, fmt::Write as _};

const MIGRATION: &str = concat!(
    include_str!("../../../migrations/mysql/0001_idem_records.sql"),
    include_str!("../../../migrations/mysql/0002_idem_tokens.sql"),
    include_str!("../../../migrations/mysql/0003_idem_leases.sql"),
    include_str!("../../../migrations/mysql/0004_idem_attempts.sql"),
);

/// The session's own settings, put back when the unit ends: the connection may be shared with other code.
///
/// In a unit autocommit is off. A server that ends the transaction by itself (a deadlock, DDL) then opens another one,
/// which nobody commits, for what the body writes after it.
const RESTORE: &str = "SET SESSION innodb_lock_wait_timeout = @idem_lock_wait, SESSION autocommit = @idem_autocommit";
const ROLL_BACK: &str =
    "ROLLBACK; SET SESSION innodb_lock_wait_timeout = @idem_lock_wait, SESSION autocommit = @idem_autocommit";
const CLOSE: &str = "RELEASE SAVEPOINT idem_guard; COMMIT; \
     SET SESSION innodb_lock_wait_timeout = @idem_lock_wait, SESSION autocommit = @idem_autocommit";

/// ER_DUP_ENTRY
const DUPLICATE_ENTRY: u16 = 1062;
/// ER_SP_DOES_NOT_EXIST, which is also "savepoint does not exist".
const NO_SAVEPOINT: u16 = 1305;

impl Connection for MySqlConnection {}

pub(crate) struct Statements {
    begin: String,
    table: String,
    tokens: String,
    retention_us: u64,
}

impl Backend for MySqlConnection {
    const NAME: &'static str = "MySQL";
    const ENDS_TRANSACTIONS: bool = true;
    type Statements = Statements;
    type Keeper = ();

    fn statements(settings: &Settings) -> Statements {
        // Whole seconds, and at least one: the server knows no shorter wait.
        let lock_wait = settings.lock_wait.as_millis().div_ceil(1000).clamp(1, 1_073_741_824);
        let isolation = settings
            .isolation
            .sql()
            .map_or(String::new(), |level| format!("SET TRANSACTION ISOLATION LEVEL {level}; "));
        Statements {
            begin: format!(
                "SET @idem_lock_wait = @@SESSION.innodb_lock_wait_timeout, @idem_autocommit = @@SESSION.autocommit, \
                 SESSION innodb_lock_wait_timeout = {lock_wait}, SESSION autocommit = 0; \
                 {isolation}START TRANSACTION; "
            ),
            table: settings.table.quoted('`'),
            tokens: Table::new(&settings.table, Part::Tokens).name.quoted('`'),
            retention_us: settings.retention.as_millis().saturating_mul(1000),
        }
    }

    async fn open_pool(url: &str, settings: &Settings) -> Result<MySqlPool, sqlx::Error> {
        server_pool::<Self>(settings).connect(url).await
    }

    async fn keeper(_: &MySqlPool) -> Result<(), ConfigurationError> {
        Ok(())
    }

    /// BEGIN, claim and guard go in one trip, as text: the values are hexadecimal literals, so nothing in them can be
    /// taken for SQL, and there is no PREPARE in which a dropped future would lose the connection.
    async fn claim(&mut self, statements: &Statements, entry: &Entry<'_>) -> Result<Claimed, sqlx::Error> {
        // The depth that this leaves at 1 makes a `begin()` in the body a savepoint. The guard that sqlx would roll back
        // with is not wanted: the unit closes the connection instead.
        let begun = self.begin_with(AssertSqlSafe(begin_and_claim(statements, entry))).await.map(std::mem::forget);
        match begun {
            Ok(()) => Ok(Claimed::First),
            // Nothing but the claim's INSERT can answer this: the record table has one unique index.
            Err(error) if number(&error) == Some(DUPLICATE_ENTRY) => {
                let sql = format!("{ROLL_BACK}; {}", look_up_sql(statements, entry.key));
                Ok(fetch_record(self, sql).await?.map_or(Claimed::Gone, Claimed::Repeat))
            }
            Err(error) => Err(error),
        }
    }

    async fn begin_unit(&mut self, statements: &Statements) -> Result<(), sqlx::Error> {
        let begin = format!("{}SAVEPOINT idem_guard", statements.begin);
        self.begin_with(AssertSqlSafe(begin)).await.map(std::mem::forget)
    }

    fn placeholder(_: usize) -> Cow<'static, str> {
        "?".into()
    }

    async fn run_guard(&mut self, sql: &str, arguments: MySqlArguments) -> Result<u64, sqlx::Error> {
        let guard = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments);
        guard.execute(self).await.map(|done| done.rows_affected())
    }

    async fn finds(&mut self, sql: &str, arguments: MySqlArguments) -> Result<bool, sqlx::Error> {
        let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments);
        query.fetch_optional(self).await.map(|row| row.is_some())
    }

    async fn is_conflict_on(
        &mut self,
        error: &sqlx::Error,
        into: &InsertInto<'_>,
        index: &str,
    ) -> Result<bool, sqlx::Error> {
        if number(error) != Some(DUPLICATE_ENTRY) {
            return Ok(false);
        }
        // ".. for key 'index'" on MariaDB, ".. for key 'table.index'" on MySQL. In every language of the servers it is what
        // stands in quotes last; a value before it may hold anything.
        let message = error.as_database_error().map(sqlx::error::DatabaseError::message).unwrap_or_default();
        let key = message.rsplit('\'').nth(1).unwrap_or_default();
        let (table, name) = key.rsplit_once('.').map_or((None, key), |(table, name)| (Some(table), name));
        if table.is_some_and(|table| !table.eq_ignore_ascii_case(&into.table)) {
            return Ok(false);
        }
        // A trigger may have written into another table, whose index is no index of this one. What is no plain column has no
        // name.
        let columns: Vec<Option<String>> = sqlx::query_scalar(
            "SELECT CAST(IF(sub_part IS NULL, column_name, NULL) AS CHAR) FROM information_schema.statistics \
             WHERE table_schema = coalesce(?, database()) AND table_name = ? AND index_name = ? AND non_unique = 0",
        )
        .bind(&into.schema)
        .bind(&into.table)
        .bind(name)
        .fetch_all(self)
        .await?;
        let is_named = !columns.is_empty() && name.eq_ignore_ascii_case(index);
        let columns: Option<Vec<String>> = columns.into_iter().collect();
        let wanted = columns_of(&index.to_lowercase());
        Ok(is_named || columns.is_some_and(|columns| columns_of(&columns.join(",").to_lowercase()) == wanted))
    }

    async fn issue_token(&mut self, statements: &Statements, issue: &Issue<'_>) -> Result<(), sqlx::Error> {
        let mut sql = format!(
            "INSERT INTO {} (scope, action_key, issued_at, expires_at, keep_until) VALUES (",
            statements.tokens
        );
        push_hex(&mut sql, issue.scope.as_bytes());
        sql.push_str(", ");
        push_hex(&mut sql, issue.key.as_bytes());
        sql.push_str(", UTC_TIMESTAMP(6)");
        for wait in [issue.valid_for, issue.keep_for] {
            // Writing into a String cannot fail.
            let _ = write!(sql, ", TIMESTAMPADD(MICROSECOND, {}, UTC_TIMESTAMP(6))", wait.as_micros());
        }
        sql.push(')');
        self.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(|_| ())
    }

    async fn issued_tokens(&mut self, statements: &Statements, key: &str) -> Result<Vec<IssuedToken>, sqlx::Error> {
        let mut sql = format!(
            "SELECT scope, {}, {} FROM {} WHERE action_key = ",
            millis("expires_at"),
            millis("UTC_TIMESTAMP(6)"),
            statements.tokens
        );
        push_hex(&mut sql, key.as_bytes());
        let rows = self.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
        rows.iter()
            .map(|row| {
                Ok(IssuedToken {
                    scope: String::from_utf8_lossy(row.try_get(0)?).into_owned(),
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
        self.execute(sqlx::raw_sql(ROLL_BACK)).await?;
        // Behind the claim sqlx counts a transaction, which is gone now; the server takes its ROLLBACK in silence.
        while depth(self) > 0 {
            start_rollback(self);
        }
        Ok(())
    }

    async fn close_unit(&mut self, statements: &Statements, kept: Option<&Kept<'_>>) -> Result<(), CloseError> {
        let close = match kept {
            None => CLOSE.to_owned(),
            // In the same trip, behind the seal.
            Some(kept) => CLOSE.replacen("; ", &format!("; {}; ", keep_sql(statements, kept)), 1),
        };
        match self.execute(sqlx::raw_sql(AssertSqlSafe(close))).await {
            Ok(_) => {
                // Brings sqlx's depth down. The server has nothing open and takes it in silence.
                start_rollback(self);
                Ok(())
            }
            Err(error) => Err(match number(&error) {
                Some(NO_SAVEPOINT) => CloseError::Unsealed(Ending::Ended),
                // Deadlock, certification failure on a cluster, lock wait: the COMMIT did not happen.
                Some(1213 | 1205) => CloseError::RolledBack(error),
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
            Err(error) if number(&error) == Some(NO_SAVEPOINT) => false,
            Err(error) => return Err(error),
        };
        start_rollback(self);
        // Without the unit's transaction the connection is thrown away, and its lock wait with it; but tables that the
        // body locked would stand in the way of the question whether the claim is durable.
        self.execute(if ours { RESTORE } else { "UNLOCK TABLES" }).await?;
        Ok(ours)
    }

    async fn recorded_attempt(
        &mut self,
        statements: &Statements,
        key: &Key,
    ) -> Result<Option<AttemptToken>, sqlx::Error> {
        Ok(fetch_record(self, look_up_sql(statements, key)).await?.and_then(|record| record.attempt))
    }

    fn trouble(error: &sqlx::Error) -> Trouble {
        match error {
            sqlx::Error::Database(_) => match number(error) {
                Some(1213) => Trouble::Conflict,
                // 1969 is MariaDB's statement timeout, shorter than the lock wait.
                Some(1205 | 1969) => Trouble::LockWait,
                Some(1146 | 1049) => Trouble::NoTable,
                // Too many connections, shutting down, killed, not yet ready (cluster), read-only after a fail-over;
                // 1568: other code left a transaction open on this connection.
                Some(1568 | 1040 | 1053 | 1077 | 1079 | 1203 | 1047 | 1290 | 1317 | 1836 | 1927 | 3168 | 4031) => {
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
        self.execute(sqlx::raw_sql(AssertSqlSafe(Self::migration_sql(settings)))).await.map(|_| ())
    }

    fn migration_sql(settings: &Settings) -> String {
        settings.table.place_in(MIGRATION, '`')
    }

    async fn inspect(&mut self, table: &Table) -> Result<Option<Vec<String>>, sqlx::Error> {
        inspect::inspect(self, table).await
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

fn begin_and_claim(statements: &Statements, entry: &Entry<'_>) -> String {
    let Statements { begin, table, retention_us, .. } = statements;
    let mut sql = format!(
        "{begin}INSERT INTO {table} (scope, action_key, delivery_id, attempt, message, fingerprint, claimed_at, keep_until) \
         VALUES ("
    );
    push_hex(&mut sql, entry.key.scope_name().as_bytes());
    sql.push_str(", ");
    push_hex(&mut sql, entry.key.text().as_bytes());
    sql.push_str(", ");
    match entry.key.delivery_id() {
        Some(id) => push_hex(&mut sql, id.as_bytes()),
        None => sql.push_str("NULL"),
    }
    sql.push_str(", ");
    push_hex(&mut sql, entry.attempt.as_bytes());
    match entry.key.message() {
        Some(message) => {
            sql.push_str(", CONVERT(");
            push_hex(&mut sql, message.as_bytes());
            sql.push_str(" USING utf8mb4)");
        }
        None => sql.push_str(", NULL"),
    }
    sql.push_str(", ");
    match entry.key.fingerprint() {
        Some(fingerprint) => push_hex(&mut sql, fingerprint.as_bytes()),
        None => sql.push_str("NULL"),
    }
    // Writing into a String cannot fail.
    let _ = write!(
        sql,
        ", UTC_TIMESTAMP(6), TIMESTAMPADD(MICROSECOND, {retention_us}, UTC_TIMESTAMP(6))); SAVEPOINT idem_guard"
    );
    sql
}

fn keep_sql(statements: &Statements, kept: &Kept<'_>) -> String {
    let mut sql = format!("UPDATE {} SET result = ", statements.table);
    push_hex(&mut sql, kept.result);
    sql.push_str(" WHERE scope = ");
    push_hex(&mut sql, kept.key.scope_name().as_bytes());
    sql.push_str(" AND action_key = ");
    push_hex(&mut sql, kept.key.text().as_bytes());
    sql
}

fn look_up_sql(statements: &Statements, key: &Key) -> String {
    let mut sql = format!(
        "SELECT delivery_id, attempt, {}, {}, {}, fingerprint, result FROM {} WHERE scope = ",
        millis("claimed_at"),
        millis("keep_until"),
        millis("UTC_TIMESTAMP(6)"),
        statements.table
    );
    push_hex(&mut sql, key.scope_name().as_bytes());
    sql.push_str(" AND action_key = ");
    push_hex(&mut sql, key.text().as_bytes());
    sql
}

/// An instant as milliseconds since the Unix epoch.
fn millis(instant: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP('1970-01-01'), {instant}) DIV 1000")
}

fn push_hex(sql: &mut String, bytes: &[u8]) {
    sql.extend(["X'", &hex(bytes), "'"]);
}

async fn fetch_record(connection: &mut MySqlConnection, sql: String) -> Result<Option<Record>, sqlx::Error> {
    let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    rows.first().map(record).transpose()
}

fn record(row: &MySqlRow) -> Result<Record, sqlx::Error> {
    Ok(Record {
        delivery_id: row.try_get::<Option<Vec<u8>>, _>(0)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        attempt: AttemptToken::from_bytes(row.try_get(1)?),
        claimed_at: Instant(row.try_get(2)?),
        keep_until: Instant(row.try_get(3)?),
        now: Instant(row.try_get(4)?),
        fingerprint: row.try_get(5)?,
        result: row.try_get(6)?,
    })
}
