use idem_runtime::{PgStore, idempotent};

pub struct OrderPaid {
    pub order_no: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &PgStore, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(db.pool()).await?;
    Ok(())
}

fn main() {}
