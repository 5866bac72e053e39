//! Trap `key_part`: text that is borrowed or owned.

use std::borrow::Cow;

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Import<'a> {
    pub file: &'a str,
    pub line: Cow<'a, str>,
}

#[idempotent(key = row.file + "/" + row.line, store = db)]
pub async fn on_import(db: &mut PgConnection, row: &Import<'_>) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO rows (line) VALUES ($1)").bind(row.line.as_ref()).execute(&mut *db).await?;
    Ok(())
}
