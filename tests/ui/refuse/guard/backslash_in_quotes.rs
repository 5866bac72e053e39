use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = r#"UPDATE orders SET status = 'PAID' WHERE order_no = {msg.order_no} AND status = 'it\'s new'"#,
    store = db,
)]
pub async fn on_paid(db: &mut MySqlConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
