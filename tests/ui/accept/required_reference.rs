//! Trap `required`: an optional reference as a parameter.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = "order_no?", store = "db")]
pub async fn on_text(db: &mut SqliteConnection, order_no: Option<&str>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
