use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> Result<u64, sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await
}

fn main() {}
