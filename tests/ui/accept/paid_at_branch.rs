//! Trap `time`: the branch at which something was paid, which sounds like a time.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct CashPaid {
    pub paid_at_branch: String,
    pub receipt_no: i64,
}

#[idempotent(key = msg.paid_at_branch + "/" + msg.receipt_no, store = db)]
pub async fn on_cash_paid(db: &mut PgConnection, msg: &CashPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE receipts SET paid = TRUE WHERE no = $1").bind(msg.receipt_no).execute(&mut *db).await?;
    Ok(())
}
