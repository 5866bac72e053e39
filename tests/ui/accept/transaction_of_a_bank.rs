//! Trap `pool`: a transaction of a bank.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Transaction {
    pub no: String,
    pub cents: i64,
}

#[idempotent(key = "transaction.no", store = "db")]
pub async fn on_transaction(db: &mut SqliteConnection, transaction: &Transaction) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET cents = cents + ?").bind(transaction.cents).execute(&mut *db).await?;
    Ok(())
}
