//! Trap `guard`: NULL that cannot stay NULL.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Payment {
    pub order_no: String,
    pub pay_no: Option<String>,
}

#[idempotent(
    guard = "UPDATE orders SET pay_no = COALESCE({msg.pay_no}, 'none') WHERE order_no = {msg.order_no} AND pay_no IS NULL",
    store = db,
)]
pub async fn on_paid(db: &mut SqliteConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
