//! Trap `transaction`: a table that is created inside the transaction, which PostgreSQL can take back.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("CREATE TABLE IF NOT EXISTS orders_of_today (no TEXT)").execute(&mut *db).await?;
    sqlx::query("TRUNCATE carts").execute(&mut *db).await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
