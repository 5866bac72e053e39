//! The purge on SQLite: in the writer's turn, by primary key.

use super::{after, millis};
use crate::{
    purge::Archived,
    store::{
        backend::Instant,
        purge::{Due, Expired, Purging},
    },
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _, SqliteConnection, sqlite::SqliteRow};

const BEGIN: &str = "BEGIN IMMEDIATE";

impl Purging for SqliteConnection {
    const LOCKS_BATCH: bool = false;
    type Place = (String, String);

    async fn delete_expired(&mut self, due: &Due<'_>) -> Result<u64, sqlx::Error> {
        let table = due.table.name.quoted('"');
        let delete = format!(
            "DELETE FROM {table} WHERE (scope, action_key) IN \
             (SELECT scope, action_key FROM {table} WHERE {} ORDER BY keep_until LIMIT {})",
            expired(due),
            due.most
        );
        let mut batch = self.begin_with(BEGIN).await?;
        let done = batch.execute(sqlx::raw_sql(AssertSqlSafe(delete))).await?;
        batch.commit().await?;
        Ok(done.rows_affected())
    }

    async fn read_expired(&mut self, due: &Due<'_>) -> Result<Vec<Expired<Self::Place>>, sqlx::Error> {
        let read = format!(
            "SELECT scope, action_key, delivery_id, message, result, {}, {} FROM {} WHERE {} ORDER BY keep_until LIMIT {}",
            millis(due.claimed_at()),
            millis("keep_until"),
            due.table.name.quoted('"'),
            expired(due),
            due.most
        );
        let rows = self.fetch_all(sqlx::raw_sql(AssertSqlSafe(read))).await?;
        rows.iter().map(|row| archived(row, due.is_leased())).collect()
    }

    async fn delete_read(&mut self, due: &Due<'_>, places: &[Self::Place]) -> Result<u64, sqlx::Error> {
        // Another purge may have been quicker, and the action may have been done again since: its row is not due.
        let delete = format!(
            "DELETE FROM {} WHERE scope = ? AND action_key = ? AND {}",
            due.table.name.quoted('"'),
            expired(due)
        );
        let mut batch = self.begin_with(BEGIN).await?;
        let mut deleted = 0;
        for (scope, key) in places {
            let delete = sqlx::query(AssertSqlSafe(delete.clone())).bind(scope).bind(key);
            deleted += delete.execute(&mut *batch).await?.rows_affected();
        }
        batch.commit().await?;
        Ok(deleted)
    }
}

fn expired(due: &Due<'_>) -> String {
    let before = after(due.grace).replacen('+', "-", 1);
    format!("keep_until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '{before}'){}", due.condition())
}

fn archived(row: &SqliteRow, leased: bool) -> Result<Expired<(String, String)>, sqlx::Error> {
    let place: (String, String) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Expired {
        archived: Archived {
            scope: place.0.clone(),
            key: place.1.clone(),
            delivery_id: row.try_get(2)?,
            message: row.try_get(3)?,
            result: row.try_get(4)?,
            claimed_at: Instant(row.try_get(5)?).into(),
            keep_until: Instant(row.try_get(6)?).into(),
            leased,
        },
        place,
    })
}
