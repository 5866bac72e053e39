use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub shop: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    println!("{} {:?}", msg.order_no, std::ptr::from_ref(db));
    Ok(())
}

fn main() {}
