//! Trap `guard`: a new state from the message that cannot be the old one.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Payment {
    pub order_no: String,
    pub status: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = {msg.status} WHERE order_no = {msg.order_no} AND status IN ('WAIT_PAY', 'PAYING') AND status <> {msg.status}",
    store = db,
)]
pub async fn on_status(db: &mut MySqlConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
