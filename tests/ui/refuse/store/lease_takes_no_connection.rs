use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, lease = "30s")]
pub async fn send_sms(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET told = TRUE WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
