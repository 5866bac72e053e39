use idem_runtime::idempotent;

#[idempotent(key = msg.order_no, store = db)]
pub struct OrderPaid {
    pub order_no: String,
}

fn main() {}
