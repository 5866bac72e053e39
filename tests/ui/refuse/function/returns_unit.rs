use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> () {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await.ok();
    println!("{}", msg.order_no);
}

fn main() {}
