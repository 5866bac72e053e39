use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, allow(transaction(order_no), reason = "the text is sent to another system"))]
pub async fn on_order_paid(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    println!("{order_no}");
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
