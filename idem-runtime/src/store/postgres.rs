//! PostgreSQL (12 or later, for COMMIT AND CHAIN).

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
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqlSafeStr as _, SqlStr,
    postgres::{PgPool, PgRow},
};

const MIGRATION: &str = include_str!("../../migrations/postgres/0001_idem_records.sql");

/// Seals and commits in one trip. AND CHAIN opens an empty transaction, which the ROLLBACK that sqlx queues then
/// ends: sqlx's depth comes down without a trip of its own, and without "no transaction in progress" in the server's
/// log.
const CLOSE: &str = "RELEASE SAVEPOINT idem_guard; COMMIT AND CHAIN";

impl Connection for PgConnection {}

pub(crate) struct Statements {
    begin: SqlStr,
    claim: SqlStr,
    look_up: SqlStr,
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
        let record = "delivery_id, attempt, (extract(epoch FROM claimed_at) * 1000)::bigint, \
                      keep_until < clock_timestamp()";
        // One statement, so that a repeat costs one trip. Its second half sees only rows from before the statement:
        // when the claim waited for another transaction that then committed, it gives no row, and `look_up` reads it.
        let claim = format!(
            "WITH claim AS (\
               INSERT INTO {table} (scope, action_key, delivery_id, attempt, message, claimed_at, keep_until) \
               VALUES ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp() + $6::bigint * interval '1 millisecond') \
               ON CONFLICT (scope, action_key) DO NOTHING RETURNING attempt) \
             SELECT true, NULL::text, attempt, NULL::bigint, NULL::boolean FROM claim \
             UNION ALL \
             SELECT false, {record} FROM {table} \
             WHERE scope = $1 AND action_key = $2 AND NOT EXISTS (SELECT FROM claim)"
        );
        let look_up = format!("SELECT false, {record} FROM {table} WHERE scope = $1 AND action_key = $2");
        Self {
            begin: AssertSqlSafe(begin).into_sql_str(),
            claim: AssertSqlSafe(claim).into_sql_str(),
            look_up: AssertSqlSafe(look_up).into_sql_str(),
            retention_ms: i64::try_from(settings.retention.as_millis()).unwrap_or(i64::MAX),
        }
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

    async fn reset(&mut self, _: &Statements) -> Result<(), sqlx::Error> {
        roll_back_all(self).await
    }

    async fn close_unit(&mut self, _: &Statements) -> Result<(), CloseError> {
        match self.execute(sqlx::raw_sql(CLOSE)).await {
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

    async fn inspect(&mut self, settings: &Settings) -> Result<Option<Vec<String>>, sqlx::Error> {
        inspect(self, &settings.table).await
    }
}

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(std::borrow::Cow::into_owned)
}

fn record(row: &PgRow) -> Result<Record, sqlx::Error> {
    Ok(Record {
        delivery_id: row.try_get(1)?,
        attempt: AttemptToken::from_bytes(row.try_get(2)?),
        claimed_at: row.try_get(3)?,
        late: row.try_get(4)?,
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

async fn inspect(connection: &mut PgConnection, table: &TableName) -> Result<Option<Vec<String>>, sqlx::Error> {
    let found = sqlx::query(
        "SELECT c.oid::bigint, c.relpersistence = 'p', c.relkind::text FROM pg_class c \
         WHERE c.oid = to_regclass($1)",
    )
    .bind(table.quoted('"'))
    .fetch_optional(&mut *connection)
    .await?;
    let Some(found) = found else { return Ok(None) };
    let oid: i64 = found.try_get(0)?;
    let mut faults = Vec::new();
    if found.try_get::<String, _>(2)? != "r" {
        faults.push("it is not an ordinary table".to_owned());
    }
    if !found.try_get::<bool, _>(1)? {
        faults.push(format!(
            "it is unlogged or temporary, so its records do not survive a crash; run: ALTER TABLE {} SET LOGGED",
            table.quoted('"')
        ));
    }

    let columns = sqlx::query(
        "SELECT a.attname::text, t.typname::text, a.attnotnull, coalesce(co.collisdeterministic, true) \
         FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation co ON co.oid = a.attcollation \
         WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped",
    )
    .bind(oid)
    .fetch_all(&mut *connection)
    .await?;
    for (name, types, key) in [
        ("scope", &["text", "varchar"][..], true),
        ("action_key", &["text", "varchar"][..], true),
        ("delivery_id", &["text", "varchar"][..], false),
        ("attempt", &["bytea"][..], false),
        ("fingerprint", &["bytea"][..], false),
        ("message", &["text", "varchar"][..], false),
        ("result", &["bytea"][..], false),
        ("claimed_at", &["timestamptz"][..], false),
        ("keep_until", &["timestamptz"][..], false),
    ] {
        let mut found = None;
        for row in &columns {
            if row.try_get::<&str, _>(0)? == name {
                found = Some(row);
            }
        }
        let Some(row) = found else {
            faults.push(format!("it has no column `{name}`"));
            continue;
        };
        let kind: &str = row.try_get(1)?;
        if !types.contains(&kind) {
            faults.push(format!("its column `{name}` is {kind}, and must be {}", types[0]));
        }
        if key && !row.try_get::<bool, _>(2)? {
            faults.push(format!("its column `{name}` may be null, and nulls never conflict; make it NOT NULL"));
        }
        if key && !row.try_get::<bool, _>(3)? {
            faults.push(format!(
                "its column `{name}` has a collation under which different keys are equal; \
                 run: ALTER TABLE {} ALTER COLUMN {name} TYPE text COLLATE \"C\"",
                table.quoted('"')
            ));
        }
    }

    // A partial, deferred, half-built or wider index would let a second claim pass, or not serve ON CONFLICT.
    let unique: bool = sqlx::query(
        "SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid \
           AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 2 \
           AND NOT EXISTS (SELECT FROM unnest(i.indcollation::oid[]) c JOIN pg_collation co ON co.oid = c \
                           WHERE NOT co.collisdeterministic) \
           AND (SELECT array_agg(a.attname::text ORDER BY a.attname) \
                FROM unnest((i.indkey::int2[])[0:1]) k JOIN pg_attribute a \
                  ON a.attrelid = i.indrelid AND a.attnum = k) = ARRAY['action_key', 'scope'])",
    )
    .bind(oid)
    .fetch_one(&mut *connection)
    .await?
    .try_get(0)?;
    if !unique {
        faults.push(format!(
            "it has no unique index on exactly (scope, action_key); run: ALTER TABLE {} ADD PRIMARY KEY (scope, action_key)",
            table.quoted('"')
        ));
    }
    Ok(Some(faults))
}
