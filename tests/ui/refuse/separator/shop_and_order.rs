use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub shop_no: u64,
    pub order_no: u64,
}

#[idempotent(key = msg.shop_no + msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
