//! Trap `separator`: groups in parentheses that end in text.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Transfer {
    pub from: i64,
    pub to: i64,
    pub voucher: String,
}

#[idempotent(key = (msg.from + ">" + msg.to) + ("/" + msg.voucher), store = db)]
pub async fn on_transfer(db: &mut PgConnection, msg: &Transfer) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance - 1 WHERE no = $1").bind(msg.from).execute(&mut *db).await?;
    Ok(())
}
