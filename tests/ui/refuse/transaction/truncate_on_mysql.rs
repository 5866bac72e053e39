use idem_runtime::idempotent;
use sqlx::MySqlConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("TRUNCATE TABLE carts").execute(&mut *db).await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
