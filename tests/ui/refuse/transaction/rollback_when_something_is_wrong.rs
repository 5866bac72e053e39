use idem_runtime::idempotent;
use sqlx::MySqlConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    if order_no.starts_with("TEST") {
        sqlx::query("rollback;").execute(&mut *db).await?;
    }
    Ok(())
}

fn main() {}
