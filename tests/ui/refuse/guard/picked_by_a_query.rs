use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = "UPDATE coupons SET status = 'USED' WHERE shop = {msg.order_no} AND status = 'FREE' AND id = (SELECT min(id) FROM coupons WHERE status = 'FREE')",
    store = db,
)]
pub async fn on_paid(db: &mut PgConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES ($1)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
