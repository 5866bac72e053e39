use idem_runtime::{AtLeastOnceLease, idempotent};

#[idempotent(key = order_no, store = lease, lease = "30s")]
pub async fn send_sms(lease: &mut AtLeastOnceLease, order_no: &str) -> Result<(), std::io::Error> {
    println!("{} {order_no}", lease.fence());
    Ok(())
}

fn main() {}
