use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
    pub request_id: String,
    pub amount: i64,
    pub token: String,
}

#[idempotent(
    guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.order_no} AND status = 'NEW'",
    replay,
    store = db,
)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
