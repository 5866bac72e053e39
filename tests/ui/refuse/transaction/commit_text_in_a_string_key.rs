use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = "order_no", store = "db")]
pub async fn on_order_paid(db: &mut SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    sqlx::query("COMMIT").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
