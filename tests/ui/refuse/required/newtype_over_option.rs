use idem_runtime::{KeyPart, idempotent};
use sqlx::SqliteConnection;

#[derive(KeyPart)]
pub struct Coupon(pub Option<String>);

pub struct OrderPaid {
    pub order_no: String,
    pub coupon: Coupon,
}

#[idempotent(key = msg.coupon?, store = db)]
pub async fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
