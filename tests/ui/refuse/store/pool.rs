use idem_runtime::idempotent;
use sqlx::PgPool;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &PgPool, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(db).await?;
    Ok(())
}

fn main() {}
