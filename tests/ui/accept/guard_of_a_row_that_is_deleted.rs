//! Trap `guard`: a row that is there once.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "DELETE FROM holds WHERE order_no = {msg.order_no} AND status = 'OPEN'",
    store = db,
)]
pub async fn on_paid(db: &mut SqliteConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
