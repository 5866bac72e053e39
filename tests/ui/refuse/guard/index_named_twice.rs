use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Credit {
    pub biz_no: String,
    pub account: String,
}

#[idempotent(
    guard = "INSERT INTO account_flow (account, biz_no) VALUES ({msg.account}, {msg.biz_no}) ON CONFLICT (biz_no) DO NOTHING",
    store = db,
    unique = "uq_flow_biz_no",
)]
pub async fn on_credit(db: &mut PgConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE account SET touched = 1 WHERE no = $1").bind(&msg.account).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
