use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Credit {
    pub account: String,
    pub cents: i64,
}

#[idempotent(
    guard = "INSERT INTO account_flow (account, cents) VALUES ({msg.account}, {msg.cents})",
    store = db,
    unique = "account, biz_no",
)]
pub async fn on_credit(db: &mut MySqlConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE account SET touched = 1 WHERE no = ?").bind(&msg.account).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
