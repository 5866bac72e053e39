//! Trap `function`: the result alias of the driver.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn ship(db: &mut PgConnection, order_no: &str) -> sqlx::Result<()> {
    sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
