//! Trap `key_part`: the widest integers.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct BlockMined {
    pub height: u128,
    pub delta: i128,
    pub slot: usize,
}

#[idempotent(key = msg.height + "/" + msg.delta + "/" + msg.slot, store = db)]
pub async fn on_mined(db: &mut SqliteConnection, msg: &BlockMined) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE blocks SET seen = TRUE WHERE no = ?").bind(msg.height.to_string()).execute(&mut *db).await?;
    Ok(())
}
