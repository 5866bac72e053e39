use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Credit {
    pub biz_no: String,
    pub account: String,
}

#[idempotent(
    guard = "INSERT OR REPLACE INTO account_flow (account, biz_no) VALUES ({msg.account}, {msg.biz_no})",
    store = db,
    unique = "biz_no",
)]
pub async fn on_credit(db: &mut SqliteConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE account SET touched = 1 WHERE no = ?").bind(&msg.account).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
