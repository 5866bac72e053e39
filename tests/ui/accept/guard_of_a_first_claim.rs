//! Trap `guard`: a time that is set once.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE orders SET picked_at = now() WHERE order_no = {msg.order_no} AND picked_at IS NULL",
    store = db,
)]
pub async fn on_pick(db: &mut PgConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES ($1)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
