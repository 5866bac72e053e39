//! Trap `random`: a random id that is logged as the delivery and is no part of the key.

use idem_runtime::idempotent;
use sqlx::PgConnection;
use uuid::Uuid;

pub struct OrderPaid {
    pub order_no: String,
    pub envelope: Uuid,
}

#[idempotent(key = msg.order_no, store = db, delivery = msg.envelope)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
