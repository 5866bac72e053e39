//! Trap `separator`: a payload in the string form.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Paid {
    pub order_no: String,
    pub amount: i64,
    pub currency: String,
}

#[idempotent(key = "msg.order_no", payload = "msg.amount + ' ' + msg.currency", store = "db")]
pub async fn on_paid(db: &mut PgConnection, msg: &Paid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET paid = TRUE WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
