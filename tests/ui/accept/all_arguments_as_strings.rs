//! Trap `argument`: every argument as a string.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[derive(Debug)]
pub struct OrderPaid {
    pub order_no: String,
    pub notify_id: String,
}

#[idempotent(
    key = "msg.order_no",
    store = "db",
    scope = "orders.paid",
    crate = "idem_runtime",
    delivery = "msg.notify_id",
    record = "msg"
)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
