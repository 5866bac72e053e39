use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.order_no} AND status IN 'WAIT_PAY'",
    store = db,
)]
pub async fn on_paid(db: &mut PgConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES ($1)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
