use idem_runtime::idempotent;

pub struct OrderPaid {
    pub order_no: String,
}

#[derive(Default)]
pub struct Memory {
    pub paid: Vec<String>,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut Memory, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    db.paid.push(msg.order_no.clone());
    Ok(())
}

fn main() {}
