//! Trap `guard`: SQL that the compiler cannot read.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE orders INDEXED BY orders_no SET status = 'PAID' WHERE order_no = {msg.order_no} AND status = 'WAIT_PAY'",
    store = db,
    allow(guard, reason = "SQLite alone knows INDEXED BY; the WHERE pins the state"),
)]
pub async fn on_paid(db: &mut SqliteConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
