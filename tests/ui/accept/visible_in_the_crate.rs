//! Trap `function`: a function that only the crate sees.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

#[idempotent(key = order_no, store = db)]
pub(crate) async fn ship(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
