//! MySQL and MariaDB.

use super::{
    Connection, Settings,
    backend::{Backend, Claimed, CloseError, Entry, Record, Trouble, depth, server_pool, start_rollback},
    settings::TableName,
};
use crate::{
    error::{ConfigurationError, Ending},
    key::Key,
    unit::AttemptToken,
};
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, Row as _,
    mysql::{MySqlDatabaseError, MySqlPool, MySqlRow},
};
use std::fmt::Write as _;

const MIGRATION: &str = include_str!("../../migrations/mysql/0001_idem_records.sql");

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

    async fn reset(&mut self, _: &Statements) -> Result<(), sqlx::Error> {
        self.execute(sqlx::raw_sql(ROLL_BACK)).await.map(|_| ())
    }

    async fn close_unit(&mut self, _: &Statements) -> Result<(), CloseError> {
        match self.execute(sqlx::raw_sql(CLOSE)).await {
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

    async fn inspect(&mut self, settings: &Settings) -> Result<Option<Vec<String>>, sqlx::Error> {
        inspect(self, &settings.table).await
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

fn begin_and_claim(statements: &Statements, entry: &Entry<'_>) -> String {
    let Statements { begin, table, retention_us } = statements;
    let mut sql = format!(
        "{begin}INSERT INTO {table} (scope, action_key, delivery_id, attempt, message, claimed_at, keep_until) VALUES ("
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
    // Writing into a String cannot fail.
    let _ = write!(
        sql,
        ", UTC_TIMESTAMP(6), TIMESTAMPADD(MICROSECOND, {retention_us}, UTC_TIMESTAMP(6))); SAVEPOINT idem_guard"
    );
    sql
}

fn look_up_sql(statements: &Statements, key: &Key) -> String {
    let mut sql = format!(
        "SELECT delivery_id, attempt, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP('1970-01-01'), claimed_at) DIV 1000, \
         keep_until < UTC_TIMESTAMP(6) FROM {} WHERE scope = ",
        statements.table
    );
    push_hex(&mut sql, key.scope_name().as_bytes());
    sql.push_str(" AND action_key = ");
    push_hex(&mut sql, key.text().as_bytes());
    sql
}

fn push_hex(sql: &mut String, bytes: &[u8]) {
    sql.push_str("X'");
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = write!(sql, "{byte:02x}");
    }
    sql.push('\'');
}

async fn fetch_record(connection: &mut MySqlConnection, sql: String) -> Result<Option<Record>, sqlx::Error> {
    let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    rows.first().map(record).transpose()
}

fn record(row: &MySqlRow) -> Result<Record, sqlx::Error> {
    Ok(Record {
        delivery_id: row.try_get::<Option<Vec<u8>>, _>(0)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        attempt: AttemptToken::from_bytes(row.try_get(1)?),
        claimed_at: row.try_get(2)?,
        late: row.try_get::<i64, _>(3)? != 0,
    })
}

async fn inspect(connection: &mut MySqlConnection, table: &TableName) -> Result<Option<Vec<String>>, sqlx::Error> {
    let quoted = table.quoted('`');
    let engine = sqlx::query(
        "SELECT CAST(engine AS CHAR), CAST(table_type AS CHAR) FROM information_schema.tables \
         WHERE table_schema = coalesce(?, database()) AND table_name = ?",
    )
    .bind(table.schema())
    .bind(table.name())
    .fetch_optional(&mut *connection)
    .await?;
    let Some(engine) = engine else { return Ok(None) };
    let mut faults = Vec::new();
    let engine: Option<String> = engine.try_get(0)?;
    if !engine.as_deref().is_some_and(|engine| engine.eq_ignore_ascii_case("InnoDB")) {
        faults.push(format!(
            "its engine is {}, which does not roll back; run: ALTER TABLE {quoted} ENGINE = InnoDB",
            engine.as_deref().unwrap_or("none")
        ));
    }

    let columns = sqlx::query(
        "SELECT CAST(column_name AS CHAR), CAST(data_type AS CHAR), is_nullable = 'YES', \
         CAST(coalesce(collation_name, '') AS CHAR), CAST(coalesce(character_octet_length, 0) AS SIGNED) \
         FROM information_schema.columns WHERE table_schema = coalesce(?, database()) AND table_name = ?",
    )
    .bind(table.schema())
    .bind(table.name())
    .fetch_all(&mut *connection)
    .await?;
    for (name, types, least, key) in [
        ("scope", &["varbinary", "varchar"][..], 255, true),
        ("action_key", &["varbinary", "varchar"][..], 255, true),
        ("delivery_id", &["varbinary", "varchar", "blob", "text"][..], 255, false),
        ("attempt", &["varbinary", "binary", "blob"][..], 16, false),
        ("fingerprint", &["varbinary", "blob"][..], 64, false),
        ("message", &["mediumtext", "longtext"][..], 0, false),
        ("result", &["mediumblob", "longblob"][..], 0, false),
        ("claimed_at", &["datetime"][..], 0, false),
        ("keep_until", &["datetime"][..], 0, false),
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
        let kind: String = row.try_get(1)?;
        if !types.contains(&kind.as_str()) {
            faults.push(format!("its column `{name}` is {kind}, and must be {}", types[0]));
        } else if row.try_get::<i64, _>(4)? < least {
            faults.push(format!("its column `{name}` is too short, and must hold {least} bytes"));
        }
        let repair = format!("run: ALTER TABLE {quoted} MODIFY {name} VARBINARY(255) NOT NULL");
        if key && row.try_get::<i64, _>(2)? != 0 {
            faults.push(format!("its column `{name}` may be null, and nulls never conflict; {repair}"));
        }
        // The only collations of text that compare byte for byte, trailing spaces included.
        let collation: String = row.try_get(3)?;
        if key && kind == "varchar" && !["utf8mb4_0900_bin", "utf8mb4_nopad_bin"].contains(&collation.as_str()) {
            faults.push(format!(
                "its column `{name}` has the collation {collation}, under which different keys are equal; {repair}"
            ));
        }
    }

    let unique: i64 = sqlx::query(
        "SELECT CAST(count(*) AS SIGNED) FROM (SELECT index_name FROM information_schema.statistics \
           WHERE table_schema = coalesce(?, database()) AND table_name = ? AND non_unique = 0 \
           GROUP BY index_name \
           HAVING count(*) = 2 AND sum(sub_part IS NOT NULL) = 0 \
              AND sum(lower(column_name) IN ('scope', 'action_key')) = 2) AS fit",
    )
    .bind(table.schema())
    .bind(table.name())
    .fetch_one(&mut *connection)
    .await?
    .try_get(0)?;
    if unique == 0 {
        faults.push(format!(
            "it has no unique index on exactly (scope, action_key); run: ALTER TABLE {quoted} ADD PRIMARY KEY (scope, action_key)"
        ));
    }
    Ok(Some(faults))
}
