use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, allow(pool(rates), reason = "the rates are only read there"))]
pub async fn on_order_paid(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    println!("{order_no}");
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
