use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: u64,
}

#[idempotent(key = msg.order_n, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET state = 'PAID'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
