//! Trap `store`: a lease where others have a connection.

use idem_runtime::{AtLeastOnceLease, Handled, PgStore, idempotent};
use sqlx::PgPool;

pub struct Sms {
    pub order_no: String,
}

// Under a lease no transaction is open that a pool could escape.
#[idempotent(key = sms.order_no + ":shipped", store = lease, lease = "90s", scope = "sms.shipped")]
pub async fn send_sms(lease: &AtLeastOnceLease, sms: &Sms, pool: &PgPool) -> Result<u64, sqlx::Error> {
    let told = sqlx::query("UPDATE outbox SET sent = TRUE WHERE no = $1").bind(&sms.order_no).execute(pool).await?;
    Ok(told.rows_affected() + lease.fence())
}

pub async fn call(store: &PgStore, sms: &Sms) -> Handled<Result<u64, sqlx::Error>> {
    send_sms(store, sms, store.pool()).await
}
