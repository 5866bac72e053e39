//! Trap `transaction`: words in comments of a statement.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1 -- COMMIT; ROLLBACK;")
        .bind(order_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
