use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Transfer {
    pub from: u64,
    pub to: u64,
    pub sum: u64,
}

#[idempotent(key = (msg.from + msg.to) + ":" + msg.sum, store = db)]
pub async fn on_transfer(db: &mut PgConnection, msg: &Transfer) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance + 1").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
