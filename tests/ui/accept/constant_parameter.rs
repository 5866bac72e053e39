//! Trap `constant`: a constant parameter of the function.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = SHARD + ":" + order_no, store = db, scope = "orders.of_a_shard")]
pub async fn on_order<const SHARD: u16>(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'SEEN' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
