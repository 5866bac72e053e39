//! Trap `guard`: ON CONFLICT that names its columns.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Credit {
    pub biz_no: String,
    pub account: String,
}

#[idempotent(
    guard = "INSERT INTO account_flow (account, biz_no) VALUES ({msg.account}, {msg.biz_no}) ON CONFLICT (biz_no) DO NOTHING",
    store = db,
)]
pub async fn on_credit(db: &mut SqliteConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE account SET touched = 1 WHERE no = ?").bind(&msg.account).execute(&mut *db).await?;
    Ok(())
}
