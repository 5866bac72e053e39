//! Trap `separator`: a word between two numbers.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Refund {
    pub order_no: i64,
    pub refund_no: i64,
}

#[idempotent(key = "msg.order_no + 'REFUND' + msg.refund_no", store = "db")]
pub async fn on_refund(db: &mut SqliteConnection, msg: &Refund) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE refunds SET done = TRUE WHERE no = ?").bind(msg.refund_no).execute(&mut *db).await?;
    Ok(())
}
