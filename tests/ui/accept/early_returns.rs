//! Trap `function`: early returns from loops and closures.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = order_no, store = db)]
pub async fn ship(db: &mut SqliteConnection, order_no: &str) -> Result<usize, sqlx::Error> {
    let lengths = || order_no.parse::<usize>();
    for (index, letter) in order_no.chars().enumerate() {
        if letter == 'X' {
            return Ok(index);
        }
    }
    let Ok(length) = lengths() else { return Err(sqlx::Error::RowNotFound) };
    sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(length)
}
