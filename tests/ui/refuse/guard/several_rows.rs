use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Credit {
    pub biz_no: String,
    pub account: String,
}

#[idempotent(
    guard = "INSERT INTO account_flow (biz_no, account) VALUES ({msg.biz_no}, {msg.account}), ({msg.biz_no}, 'house')",
    store = db,
    unique = "uq_flow_biz_no_account",
)]
pub async fn on_credit(db: &mut MySqlConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE account SET touched = 1 WHERE no = ?").bind(&msg.account).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
