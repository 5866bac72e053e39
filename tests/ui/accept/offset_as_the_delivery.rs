//! Trap `broker_id`: an offset that is logged as the delivery and is no part of the key.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub offset: i64,
}

#[idempotent(key = msg.order_no, store = db, delivery = msg.offset)]
pub async fn on_order_paid(db: &mut MySqlConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
