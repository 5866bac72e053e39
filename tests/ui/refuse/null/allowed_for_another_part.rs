use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Transfer {
    pub from: Option<String>,
    pub to: Option<String>,
}

#[idempotent(
    key = msg.from + ">" + msg.to,
    store = db,
    allow(null(msg.from), reason = "a deposit comes from no account"),
)]
pub async fn on_transfer(db: &mut PgConnection, msg: &Transfer) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance + 1 WHERE no = $1").bind(&msg.to).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
