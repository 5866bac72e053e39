//! Trap `allow`: an allow that names an accessor.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Record {
    pub line: i64,
}

impl Record {
    pub fn offset(&self) -> i64 {
        self.line
    }
}

#[idempotent(
    key = rec.offset(),
    store = db,
    allow(broker_id(rec.offset()), reason = "it is the line of a file that never changes"),
)]
pub async fn on_archive(db: &mut MySqlConnection, rec: &Record) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO lines (line) VALUES (?)").bind(rec.line).execute(&mut *db).await?;
    Ok(())
}
