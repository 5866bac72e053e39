use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
    pub request_id: String,
}

#[idempotent(
    key = msg.shop + ":" + msg.request_id,
    store = db,
    allow(random(msg.request_id), null(msg.shopp), reason = "the client makes it once per submission"),
)]
pub async fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
