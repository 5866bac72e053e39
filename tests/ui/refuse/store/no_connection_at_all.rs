use idem_runtime::idempotent;

pub struct OrderPaid {
    pub order_no: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut String, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    db.push_str(&msg.order_no);
    Ok(())
}

fn main() {}
