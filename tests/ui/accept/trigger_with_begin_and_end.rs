//! Trap `transaction`: a trigger with BEGIN and END.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("CREATE TRIGGER IF NOT EXISTS t AFTER UPDATE ON orders BEGIN UPDATE totals SET n = n + 1; END")
        .execute(&mut *db)
        .await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
