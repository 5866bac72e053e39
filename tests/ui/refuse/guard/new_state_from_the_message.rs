use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Payment {
    pub order_no: String,
    pub status: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = {msg.status} WHERE order_no = {msg.order_no} AND status = 'WAIT_PAY'",
    store = db,
)]
pub async fn on_status(db: &mut SqliteConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
