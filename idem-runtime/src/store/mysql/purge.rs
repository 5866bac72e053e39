//! The purge on MySQL and MariaDB: as text, at READ COMMITTED, where a purge locks no gap that a claim needs.

use super::{millis, push_hex};
use crate::{
    purge::Archived,
    store::{
        backend::Instant,
        purge::{Due, Expired, Purging},
    },
};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection, Row as _, mysql::MySqlRow};

const COMMIT: &str = "COMMIT; SET SESSION innodb_lock_wait_timeout = @idem_lock_wait";
/// How many keys one DELETE names: few enough for the server to look them up one by one, and for its packet size.
const KEYS: usize = 500;

impl Purging for MySqlConnection {
    const LOCKS_BATCH: bool = true;
    type Place = Key;

    async fn delete_expired(&mut self, due: &Due<'_>) -> Result<u64, sqlx::Error> {
        let sql = format!(
            "{}DELETE FROM {} WHERE {} ORDER BY keep_until LIMIT {}; {COMMIT}",
            begin(due),
            due.table.name.quoted('`'),
            expired(due),
            due.most
        );
        // No other statement of these counts rows.
        Ok(self.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?.rows_affected())
    }

    async fn read_expired(&mut self, due: &Due<'_>) -> Result<Vec<Expired<Key>>, sqlx::Error> {
        let sql = format!(
            "{}SELECT scope, action_key, delivery_id, message, result, {}, {} FROM {} WHERE {} \
             ORDER BY keep_until LIMIT {} FOR UPDATE SKIP LOCKED",
            begin(due),
            millis(due.claimed_at()),
            millis("keep_until"),
            due.table.name.quoted('`'),
            expired(due),
            due.most
        );
        let rows = self.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
        rows.iter().map(|row| archived(row, due.is_leased())).collect()
    }

    async fn delete_read(&mut self, due: &Due<'_>, places: &[Key]) -> Result<u64, sqlx::Error> {
        let mut places: Vec<&Key> = places.iter().collect();
        places.sort_unstable();
        let mut deleted = 0;
        for of_scope in places.chunk_by(|one, next| one.scope == next.scope) {
            for keys in of_scope.chunks(KEYS) {
                let delete = sqlx::raw_sql(AssertSqlSafe(delete(due, keys)));
                deleted += self.execute(delete).await?.rows_affected();
            }
        }
        self.execute(sqlx::raw_sql(COMMIT)).await?;
        Ok(deleted)
    }
}

/// A row's primary key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    scope: Vec<u8>,
    key: Vec<u8>,
}

/// An open transaction of other code is an error here, and not committed by START TRANSACTION: its level cannot be set.
fn begin(due: &Due<'_>) -> String {
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET @idem_lock_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = {}; \
         START TRANSACTION; ",
        due.lock_wait.as_millis().div_ceil(1000).clamp(1, 1_073_741_824)
    )
}

fn expired(due: &Due<'_>) -> String {
    let grace = due.grace.as_millis() * 1000;
    format!("keep_until < TIMESTAMPADD(MICROSECOND, -{grace}, UTC_TIMESTAMP(6)){}", due.condition())
}

/// Deletes rows of one scope.
fn delete(due: &Due<'_>, keys: &[&Key]) -> String {
    let mut sql = format!("DELETE FROM {} WHERE scope = ", due.table.name.quoted('`'));
    push_hex(&mut sql, keys.first().map_or(&[], |key| &key.scope));
    sql.push_str(" AND action_key IN (");
    for (number, key) in keys.iter().enumerate() {
        if number > 0 {
            sql.push(',');
        }
        push_hex(&mut sql, &key.key);
    }
    sql.push(')');
    sql
}

fn archived(row: &MySqlRow, leased: bool) -> Result<Expired<Key>, sqlx::Error> {
    let place = Key { scope: row.try_get(0)?, key: row.try_get(1)? };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Expired {
        archived: Archived {
            scope: text(&place.scope),
            key: text(&place.key),
            delivery_id: row.try_get::<Option<Vec<u8>>, _>(2)?.as_deref().map(text),
            message: row.try_get(3)?,
            result: row.try_get(4)?,
            claimed_at: Instant(row.try_get(5)?).into(),
            keep_until: Instant(row.try_get(6)?).into(),
            leased,
        },
        place,
    })
}
