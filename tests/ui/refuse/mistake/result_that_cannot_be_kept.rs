use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: String,
}

pub struct Receipt {
    pub no: i64,
}

#[idempotent(key = msg.order_no, store = db, replay)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<Receipt, sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(Receipt { no: 1 })
}

fn main() {}
