//! Trap `guard`: what the compiler cannot know, and a reviewer can.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = next_status(status) WHERE order_no = {msg.order_no} AND status = 'WAIT_PAY'",
    store = db,
    allow(guard, reason = "next_status never answers the state that it was given"),
)]
pub async fn on_paid(db: &mut PgConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES ($1)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
