//! Trap `function`: a boxed error.

use std::error::Error;

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = order_no, store = db)]
pub async fn ship(db: &mut SqliteConnection, order_no: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
