//! Trap `guard`: a list of states without the new one.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = 'CLOSED' WHERE order_no = {msg.order_no} AND status IN ('WAIT_PAY', 'FAILED')",
    store = db,
)]
pub async fn on_closed(db: &mut MySqlConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
