//! Trap `key_part`: text behind a shared pointer.

use std::sync::Arc;

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Published {
    pub topic: Arc<str>,
    pub issue: i64,
}

#[idempotent(key = msg.topic + "#" + msg.issue, store = db)]
pub async fn on_published(db: &mut MySqlConnection, msg: &Published) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE issues SET published = TRUE WHERE no = ?").bind(msg.issue).execute(&mut *db).await?;
    Ok(())
}
