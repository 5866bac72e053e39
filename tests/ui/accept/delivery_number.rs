//! Trap `broker_id`: the number of a delivery of goods.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct GoodsDelivered {
    pub delivery_no: String,
}

#[idempotent(key = msg.delivery_no, store = db)]
pub async fn on_delivered(db: &mut PgConnection, msg: &GoodsDelivered) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE deliveries SET status = 'DONE' WHERE no = $1").bind(&msg.delivery_no).execute(&mut *db).await?;
    Ok(())
}
