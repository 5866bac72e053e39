//! Trap `argument`: every argument in another order, with bare tokens.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[derive(Debug)]
pub struct OrderPaid {
    pub order_no: String,
    pub notify_id: String,
}

#[idempotent(record = msg, retry = 3, delivery = msg.notify_id, crate = ::idem_runtime, scope = "paid", store = db, key = msg.order_no)]
pub async fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
