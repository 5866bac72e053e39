//! Trap `store`: a lease that comes from an expression.

use idem_runtime::{AtLeastOnceLease, Decision, Replay, SqliteStore, idempotent};

pub struct Sender {
    leases: SqliteStore,
}

impl Sender {
    #[idempotent(
        key = order_no,
        payload = text,
        store = self.leases,
        tx = lease,
        scope = "sms.shipped",
        lease = "1m",
        replay,
        declines
    )]
    pub async fn send(
        &self,
        lease: &AtLeastOnceLease,
        order_no: &str,
        text: &str,
    ) -> Result<Decision<String>, std::io::Error> {
        Ok(if text.is_empty() { Decision::drop("nothing to say") } else { Decision::Done(lease.idempotency_key()) })
    }

    pub async fn call(&self) -> Option<Replay<String>> {
        match self.send("A1", "shipped").await {
            Ok(idem_runtime::Outcome::Duplicate(seen)) => Some(seen.result),
            _ => None,
        }
    }
}
