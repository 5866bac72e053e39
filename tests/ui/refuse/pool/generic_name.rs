use idem_runtime::idempotent;
use sqlx::{MySql, MySqlConnection, Pool};

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut MySqlConnection, pool: &Pool<MySql>, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    let _ = pool;
    Ok(())
}

fn main() {}
