//! Trap `transaction`: a savepoint in SQL, and the way back to it.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SAVEPOINT bonus").execute(&mut *db).await?;
    sqlx::query("ROLLBACK TO SAVEPOINT bonus").execute(&mut *db).await?;
    sqlx::raw_sql("ROLLBACK TRANSACTION TO SAVEPOINT bonus; RELEASE SAVEPOINT bonus").execute(&mut *db).await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
