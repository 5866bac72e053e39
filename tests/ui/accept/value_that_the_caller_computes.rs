//! Trap `computed`: a digest that the caller computes and passes.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = digest, store = db)]
pub async fn on_upload(db: &mut SqliteConnection, digest: &str, bytes: &[u8]) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO uploads (digest, bytes) VALUES (?, ?)").bind(digest).bind(bytes).execute(&mut *db).await?;
    Ok(())
}
