use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Transfer {
    pub accounts: (u64, u64),
}

#[idempotent(key = msg.accounts, store = db)]
pub async fn on_transfer(db: &mut SqliteConnection, msg: &Transfer) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance + 1 WHERE no = ?")
        .bind(i64::try_from(msg.accounts.1).unwrap_or_default())
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
