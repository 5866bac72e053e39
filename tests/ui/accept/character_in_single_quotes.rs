//! Trap `separator`: a separator written as a character.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct OrderPaid {
    pub shop_no: i64,
    pub order_no: i64,
}

#[idempotent(key = msg.shop_no + ':' + msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut MySqlConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(msg.order_no).execute(&mut *db).await?;
    Ok(())
}
