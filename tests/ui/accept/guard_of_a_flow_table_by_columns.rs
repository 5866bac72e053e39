//! Trap `guard`: an INSERT that names the columns of its index.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Credit {
    pub biz_no: String,
    pub account: String,
    pub cents: i64,
}

#[idempotent(
    guard = "INSERT INTO account_flow (account, biz_no, cents) VALUES ({msg.account}, {msg.biz_no}, {msg.cents})",
    store = db,
    unique = "account, biz_no",
)]
pub async fn on_credit(db: &mut PgConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE account SET touched = 1 WHERE no = $1").bind(&msg.account).execute(&mut *db).await?;
    Ok(())
}
