//! As text, like all of this library's statements here: a PREPARE that is dropped loses its connection.

use super::{millis, push_hex};
use crate::store::{Instant, Table, attempts::Counting};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection, Row as _};
use std::fmt::Write as _;

pub(super) async fn count(
    connection: &mut MySqlConnection,
    table: &Table,
    counting: &Counting<'_>,
) -> Result<(i64, Instant), sqlx::Error> {
    let (name, least) = (table.name.quoted('`'), counting.least);
    let mut sql = format!("INSERT INTO {name} (scope, action_key, attempts, first_at, keep_until) VALUES (");
    push_hex(&mut sql, counting.scope.as_bytes());
    sql.push_str(", ");
    push_hex(&mut sql, counting.message.as_bytes());
    let keep_until = format!("TIMESTAMPADD(MICROSECOND, {}, UTC_TIMESTAMP(6))", counting.keep_for.as_micros());
    // Writing into a String cannot fail.
    let _ = write!(
        sql,
        ", {least}, UTC_TIMESTAMP(6), {keep_until}) ON DUPLICATE KEY UPDATE attempts = GREATEST(attempts + 1, {least}), \
         keep_until = {keep_until}; SELECT attempts, {} FROM {name} WHERE ",
        millis("first_at")
    );
    push_message(&mut sql, counting);
    let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    Ok((row.try_get(0)?, Instant(row.try_get(1)?)))
}

pub(super) async fn forget(
    connection: &mut MySqlConnection,
    table: &Table,
    counting: &Counting<'_>,
) -> Result<(), sqlx::Error> {
    let mut sql = format!("DELETE FROM {} WHERE ", table.name.quoted('`'));
    push_message(&mut sql, counting);
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(|_| ())
}

fn push_message(sql: &mut String, counting: &Counting<'_>) {
    sql.push_str("scope = ");
    push_hex(sql, counting.scope.as_bytes());
    sql.push_str(" AND action_key = ");
    push_hex(sql, counting.message.as_bytes());
}
