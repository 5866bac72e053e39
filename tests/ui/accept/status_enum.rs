//! Trap `key_part`: an enum of plain names.

use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;

#[derive(KeyPart)]
pub enum Status {
    Paid,
    #[key_part(text = "CLOSED")]
    Closed,
}

pub struct StatusChanged {
    pub order_no: String,
    pub status: Status,
}

#[idempotent(key = msg.order_no + ":" + msg.status, store = db)]
pub async fn on_status(db: &mut PgConnection, msg: &StatusChanged) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET changed = TRUE WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
