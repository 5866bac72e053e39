use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
    pub request_id: String,
}

#[idempotent(
    key = msg.shop + ":" + msg.request_id,
    store = db,
    allow(random(msg.shop + ":" + msg.request_id), reason = "the client makes it once per submission"),
)]
pub async fn on_order_paid(db: &mut MySqlConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
