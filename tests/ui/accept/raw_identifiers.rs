//! Trap `root`: parameters and fields with raw names.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Change {
    pub r#ref: String,
}

#[idempotent(key = r#type + ":" + change.r#ref, store = db)]
pub async fn on_change(db: &mut SqliteConnection, r#type: &str, change: &Change) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO changes (type, ref) VALUES (?, ?)")
        .bind(r#type)
        .bind(&change.r#ref)
        .execute(&mut *db)
        .await?;
    Ok(())
}
