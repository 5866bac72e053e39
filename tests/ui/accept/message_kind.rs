//! Trap `broker_id`: the kind of a message, beside its order number.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct OrderEvent {
    pub order_no: String,
    pub message_kind: String,
}

#[idempotent(key = "msg.order_no + ':' + msg.message_kind", store = "db")]
pub async fn on_event(db: &mut SqliteConnection, msg: &OrderEvent) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET touched = TRUE WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
