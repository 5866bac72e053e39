use super::{after, millis};
use crate::store::{Instant, Table, attempts::Counting};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

pub(super) async fn count(
    connection: &mut SqliteConnection,
    table: &Table,
    counting: &Counting<'_>,
) -> Result<(i64, Instant), sqlx::Error> {
    let sql = format!(
        "INSERT INTO {table} (scope, action_key, attempts, first_at, keep_until) VALUES (?1, ?2, ?3, \
         strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?4)) \
         ON CONFLICT (scope, action_key) DO UPDATE SET attempts = max(attempts + 1, excluded.attempts), \
         keep_until = excluded.keep_until RETURNING attempts, {first_at}",
        table = table.name.quoted('"'),
        first_at = millis("first_at"),
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(&*counting.scope)
        .bind(counting.message)
        .bind(i64::from(counting.least))
        .bind(after(counting.keep_for))
        .fetch_one(connection)
        .await?;
    Ok((row.try_get(0)?, Instant(row.try_get(1)?)))
}

pub(super) async fn forget(
    connection: &mut SqliteConnection,
    table: &Table,
    counting: &Counting<'_>,
) -> Result<(), sqlx::Error> {
    let sql = format!("DELETE FROM {} WHERE scope = ?1 AND action_key = ?2", table.name.quoted('"'));
    let query = sqlx::query(AssertSqlSafe(sql)).bind(&*counting.scope).bind(counting.message);
    query.execute(connection).await.map(|_| ())
}
