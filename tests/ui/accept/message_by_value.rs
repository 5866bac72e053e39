//! Trap `root`: a message that the body consumes.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Import {
    pub file: String,
    pub lines: Vec<String>,
}

#[idempotent(key = msg.file, store = db)]
pub async fn on_import(db: &mut MySqlConnection, mut msg: Import) -> Result<u64, sqlx::Error> {
    msg.lines.dedup();
    let mut rows = 0;
    for line in msg.lines {
        rows += sqlx::query("INSERT INTO lines (line) VALUES (?)").bind(line).execute(&mut *db).await?.rows_affected();
    }
    Ok(rows)
}
