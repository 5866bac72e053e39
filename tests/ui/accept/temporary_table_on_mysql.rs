//! Trap `transaction`: a temporary table on MySQL, which does not commit.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("CREATE TEMPORARY TABLE picked (no VARCHAR(64))").execute(&mut *db).await?;
    sqlx::query("DROP TEMPORARY TABLE picked").execute(&mut *db).await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
