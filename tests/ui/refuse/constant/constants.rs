use idem_runtime::idempotent;
use sqlx::PgConnection;

pub const KIND: &str = "PAID";
pub const CURRENCY: &str = "CNY";

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = "ORDER" + KIND + crate::CURRENCY, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
