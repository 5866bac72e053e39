//! Trap `function`: an error that implements nothing.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Refused;

#[idempotent(key = order_no, store = db)]
pub async fn ship(db: &mut MySqlConnection, order_no: &str) -> Result<(), Refused> {
    if order_no.starts_with("TEST") {
        return Err(Refused);
    }
    sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = ?")
        .bind(order_no)
        .execute(&mut *db)
        .await
        .or(Err(Refused))?;
    Ok(())
}
