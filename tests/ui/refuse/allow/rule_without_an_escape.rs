use idem_runtime::idempotent;
use sqlx::SqliteConnection;

#[idempotent(key = order_no, store = db, allow(separator(order_no), reason = "the numbers all have ten digits"))]
pub async fn on_order_paid(db: &mut SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
    println!("{order_no}");
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
