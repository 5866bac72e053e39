//! Trap `float`: an amount in cents.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Topup {
    pub account_no: String,
    pub top_up_no: i64,
    pub cents: i64,
}

#[idempotent(key = msg.account_no + ":" + msg.top_up_no + ":" + msg.cents, store = db)]
pub async fn on_topup(db: &mut PgConnection, msg: &Topup) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance + 1 WHERE no = $1")
        .bind(&msg.account_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
