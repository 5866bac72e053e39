//! The handler with idem.

use super::{
    message::Sms,
    pause::Pause,
    provider::{Provider, Sent},
};
use idem_runtime::{AtLeastOnceLease, idempotent};
use std::{fmt, io};

/// What the handler says.
#[derive(Debug)]
pub(crate) struct Report {
    sent: Sent,
    attempts: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sent {
            Sent::Now => write!(f, "sent, attempt {}", self.attempts),
            Sent::Before => write!(f, "provider knew it, attempt {}", self.attempts),
        }
    }
}

/// An SMS is no write in a database, so no transaction can take it back: it is sent under a lease. `pause` is what the acts
/// bring in.
#[idempotent(key = sms.order_no + ":shipped", store = lease, scope = "sms.shipped", lease = "2s", delivery = sms.offset)]
pub(crate) async fn send_shipped(
    lease: &AtLeastOnceLease,
    sms: &Sms,
    provider: &Provider,
    pause: &Pause,
) -> Result<Report, io::Error> {
    let sent = provider.send(sms, Some(&lease.idempotency_key())).await?;
    pause.after_sending().await;
    Ok(Report { sent, attempts: lease.attempts() })
}
