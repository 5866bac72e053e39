use super::millis;
use crate::store::{Instant, Table, attempts::Counting};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

pub(super) async fn count(
    connection: &mut PgConnection,
    table: &Table,
    counting: &Counting<'_>,
) -> Result<(i64, Instant), sqlx::Error> {
    let sql = format!(
        "INSERT INTO {table} AS known (scope, action_key, attempts, first_at, keep_until) VALUES ($1, $2, $3, \
         clock_timestamp(), clock_timestamp() + $4::bigint * interval '1 millisecond') \
         ON CONFLICT (scope, action_key) DO UPDATE SET attempts = greatest(known.attempts + 1, excluded.attempts), \
         keep_until = excluded.keep_until RETURNING attempts, {first_at}",
        table = table.name.quoted('"'),
        first_at = millis("first_at"),
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(&*counting.scope)
        .bind(counting.message)
        .bind(i64::from(counting.least))
        .bind(i64::try_from(counting.keep_for.as_millis()).unwrap_or(i64::MAX))
        .fetch_one(connection)
        .await?;
    Ok((row.try_get(0)?, Instant(row.try_get(1)?)))
}

pub(super) async fn forget(
    connection: &mut PgConnection,
    table: &Table,
    counting: &Counting<'_>,
) -> Result<(), sqlx::Error> {
    let sql = format!("DELETE FROM {} WHERE scope = $1 AND action_key = $2", table.name.quoted('"'));
    let query = sqlx::query(AssertSqlSafe(sql)).bind(&*counting.scope).bind(counting.message);
    query.execute(connection).await.map(|_| ())
}
