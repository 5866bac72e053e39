use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> impl Future<Output = Result<(), sqlx::Error>> {
    async move {
        sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
        println!("{}", msg.order_no);
        Ok(())
    }
}

fn main() {}
