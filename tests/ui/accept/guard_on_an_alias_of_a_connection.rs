//! Trap `guard`: a connection behind an alias, so that the guard must hold on every database.

use idem_runtime::idempotent;

type Connection = sqlx::SqliteConnection;

#[idempotent(
    guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {order_no} AND status = 'WAIT_PAY'",
    store = db,
)]
pub async fn on_paid(db: &mut Connection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
