use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    let mut db = db;
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut db).await?;
    Ok(())
}

fn main() {}
