//! Trap `function`: a result of the standard library's input and output.

use std::io;

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

#[idempotent(key = order_no, store = db)]
pub async fn ship(db: &mut MySqlConnection, order_no: &str) -> io::Result<()> {
    sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = ?")
        .bind(order_no)
        .execute(&mut *db)
        .await
        .map_err(io::Error::other)?;
    Ok(())
}
