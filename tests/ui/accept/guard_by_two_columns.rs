//! Trap `guard`: a row that is named by a tuple.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = 'PAID' WHERE (shop, order_no) = ('main', {msg.order_no}) AND status = 'WAIT_PAY'",
    store = db,
)]
pub async fn on_paid(db: &mut SqliteConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
