use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("UPDATE orders SET status = 'PAID'; COMMIT; BEGIN").execute(&mut *db).await?;
    println!("{order_no}");
    Ok(())
}

fn main() {}
