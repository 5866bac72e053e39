use idem_runtime::idempotent;
use sqlx::PgConnection;

#[derive(Debug)]
pub struct PayError;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), PayError> {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
