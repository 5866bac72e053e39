use idem_runtime::idempotent;
use sqlx::PgConnection;

pub type Rows = u64;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Rows {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await.map_or(0, |done| done.rows_affected())
}

fn main() {}
