//! Trap `pool`: a second connection for a log that may have doubles.

use idem_runtime::idempotent;
use sqlx::{MySqlConnection, SqliteConnection};

#[idempotent(
    key = "order_no",
    store = "db",
    allow(pool(log), reason = "every attempt is to be seen in the log, also those that roll back")
)]
pub async fn on_order_paid(
    db: &mut MySqlConnection,
    log: &mut SqliteConnection,
    order_no: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO attempts (no) VALUES (?)").bind(order_no).execute(&mut *log).await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
