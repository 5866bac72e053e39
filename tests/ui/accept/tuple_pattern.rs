//! Trap `root`: variables of a tuple pattern.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = from + ">" + to + ":" + voucher, store = db)]
pub async fn transfer(db: &mut SqliteConnection, (from, to): (i64, i64), voucher: String) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = balance - 1 WHERE no = ?").bind(from).execute(&mut *db).await?;
    sqlx::query("UPDATE accounts SET balance = balance + 1 WHERE no = ?").bind(to).execute(&mut *db).await?;
    drop(voucher);
    Ok(())
}
