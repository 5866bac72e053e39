//! The purge on PostgreSQL: by the rows' places, over what nobody has locked.

use super::millis;
use crate::{
    purge::Archived,
    store::{
        backend::{Instant, commit},
        purge::{Due, Expired, Purging},
    },
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, postgres::PgRow};

impl Purging for PgConnection {
    const LOCKS_BATCH: bool = true;
    /// The row's place in the table, which a locked row keeps.
    type Place = String;

    async fn delete_expired(&mut self, due: &Due<'_>) -> Result<u64, sqlx::Error> {
        let table = due.table.name.quoted('"');
        // Said again outside: the row at that place may be another one by then.
        let expired = expired(due);
        let rows = locked(due, "ctid");
        let delete = format!("DELETE FROM {table} WHERE ctid = ANY (ARRAY({rows})) AND {expired}");
        let mut batch = self.begin_with(AssertSqlSafe(begin(due))).await?;
        // As text: a prepared statement would be planned for any number of rows, and stay on the connection.
        let done = batch.execute(sqlx::raw_sql(AssertSqlSafe(delete))).await?;
        batch.commit().await?;
        Ok(done.rows_affected())
    }

    async fn read_expired(&mut self, due: &Due<'_>) -> Result<Vec<Expired<String>>, sqlx::Error> {
        let columns = format!(
            "ctid::text, scope, action_key, delivery_id, message, result, {}, {}",
            millis(due.claimed_at()),
            millis("keep_until")
        );
        // The transaction is ended by `delete_read`, or with the connection.
        std::mem::forget(self.begin_with(AssertSqlSafe(begin(due))).await?);
        let rows = sqlx::query(AssertSqlSafe(locked(due, &columns))).persistent(false).fetch_all(self).await?;
        rows.iter().map(|row| archived(row, due.is_leased())).collect()
    }

    async fn delete_read(&mut self, due: &Due<'_>, places: &[String]) -> Result<u64, sqlx::Error> {
        let table = due.table.name.quoted('"');
        let delete = format!("DELETE FROM {table} WHERE ctid = ANY ($1::text[]::tid[])");
        let delete = sqlx::query(AssertSqlSafe(delete)).persistent(false).bind(places);
        let done = delete.execute(&mut *self).await?;
        commit(self).await?;
        Ok(done.rows_affected())
    }
}

fn begin(due: &Due<'_>) -> String {
    // The level is set twice, as in a unit: within somebody else's transaction that is an error.
    format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET LOCAL lock_timeout = {}",
        due.lock_wait.as_millis().clamp(1, i32::MAX as u128)
    )
}

/// The clock that stands still within a statement: with another one the index would not serve.
fn expired(due: &Due<'_>) -> String {
    format!(
        "keep_until < statement_timestamp() - {} * interval '1 millisecond'{}",
        due.grace.as_millis(),
        due.condition()
    )
}

fn locked(due: &Due<'_>, columns: &str) -> String {
    format!(
        "SELECT {columns} FROM {} WHERE {} ORDER BY keep_until LIMIT {} FOR UPDATE SKIP LOCKED",
        due.table.name.quoted('"'),
        expired(due),
        due.most
    )
}

fn archived(row: &PgRow, leased: bool) -> Result<Expired<String>, sqlx::Error> {
    Ok(Expired {
        place: row.try_get(0)?,
        archived: Archived {
            scope: row.try_get(1)?,
            key: row.try_get(2)?,
            delivery_id: row.try_get(3)?,
            message: row.try_get(4)?,
            result: row.try_get(5)?,
            claimed_at: Instant(row.try_get(6)?).into(),
            keep_until: Instant(row.try_get(7)?).into(),
            leased,
        },
    })
}
