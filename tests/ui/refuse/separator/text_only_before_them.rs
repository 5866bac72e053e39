use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct OrderPaid {
    pub shop: String,
    pub order_no: String,
}

#[idempotent(key = "ORDER:" + msg.shop + msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
