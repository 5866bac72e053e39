use idem_runtime::{PgStore, idempotent};
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, order_no: &str) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(done.rows_affected())
}

pub async fn deliver(store: &PgStore) -> Result<u64, Box<dyn std::error::Error>> {
    let rows: u64 = on_order_paid(store, "A1").await?;
    Ok(rows)
}

fn main() {}
