use idem_runtime::idempotent;

#[idempotent(key = msg.order_no, store = db)]
pub enum OrderPaid {
    ByCard,
    InCash,
}

fn main() {}
