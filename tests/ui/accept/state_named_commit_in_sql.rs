//! Trap `transaction`: a state named COMMIT inside a statement.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'COMMIT', note = 'end; COMMIT' WHERE no = ?")
        .bind(order_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
