//! Trap `guard`: an INSERT that names its index.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Credit {
    pub biz_no: String,
    pub account: String,
    pub cents: i64,
}

#[idempotent(
    guard = "INSERT INTO account_flow (account, biz_no, cents) VALUES ({msg.account}, {msg.biz_no}, {msg.cents})",
    store = db,
    unique = "uq_flow_biz_no",
)]
pub async fn on_credit(db: &mut MySqlConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE account SET touched = 1 WHERE no = ?").bind(&msg.account).execute(&mut *db).await?;
    Ok(())
}
