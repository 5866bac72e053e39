use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut MySqlConnection, msg: &OrderPaid) -> Result<u64, sqlx::Error> {
    if msg.order_no.is_empty() {
        return 0;
    }
    let done = sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    Ok(done.rows_affected())
}

fn main() {}
