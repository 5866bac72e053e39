//! Trap `guard`: both sides of the OR are false afterwards.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = 'CLOSED' WHERE order_no = {msg.order_no} AND (status = 'WAIT_PAY' OR status = 'FAILED')",
    store = db,
)]
pub async fn on_closed(db: &mut SqliteConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
