//! Trap `argument`: a result whose name only ends in Decision.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub enum RefundDecision {
    Granted,
    Refused,
}

#[idempotent(key = refund_no, store = db)]
pub async fn on_refund(db: &mut PgConnection, refund_no: &str) -> Result<RefundDecision, sqlx::Error> {
    let found = sqlx::query("SELECT 1 FROM refunds WHERE no = $1").bind(refund_no).fetch_optional(&mut *db).await?;
    Ok(if found.is_some() { RefundDecision::Granted } else { RefundDecision::Refused })
}
