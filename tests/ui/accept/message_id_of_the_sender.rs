//! Trap `broker_id`: a message id that the sender sets from its outbox.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub message_id: String,
}

#[idempotent(
    key = msg.message_id,
    store = db,
    allow(broker_id(msg.message_id), reason = "it is the outbox row of the shop, set once and sent again unchanged"),
)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE outbox = $1").bind(&msg.message_id).execute(&mut *db).await?;
    Ok(())
}
