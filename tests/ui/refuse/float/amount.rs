use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Topup {
    pub account_no: String,
    pub amount: f64,
}

#[idempotent(key = msg.account_no + ":" + msg.amount, store = db)]
pub async fn on_topup(db: &mut PgConnection, msg: &Topup) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance + $1").bind(msg.amount).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
