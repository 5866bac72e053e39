//! Trap `null`: a missing source account is a business value: a deposit.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Transfer {
    pub voucher: String,
    pub from: Option<String>,
    pub to: String,
}

#[idempotent(
    key = msg.voucher + ":" + msg.from + ">" + msg.to,
    store = db,
    allow(null(msg.from), reason = "a deposit comes from no account, and that is what it is"),
)]
pub async fn on_transfer(db: &mut PgConnection, msg: &Transfer) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance + 1 WHERE no = $1").bind(&msg.to).execute(&mut *db).await?;
    Ok(())
}
