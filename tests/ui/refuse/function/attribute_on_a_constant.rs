use idem_runtime::idempotent;

#[idempotent(key = msg.order_no, store = db)]
pub const ORDER_PAID: &str = "ORDER_PAID";

fn main() {}
