use idem_runtime::{AtLeastOnceLease, idempotent};

pub struct Sms {
    pub order_no: String,
    pub token: String,
}

#[idempotent(token = sms.token, store = lease, lease = "30s", scope = "sms")]
pub async fn send_sms(lease: &AtLeastOnceLease, sms: &Sms) -> Result<(), std::io::Error> {
    println!("{} {}", lease.idempotency_key(), sms.order_no);
    Ok(())
}

fn main() {}
