//! Trap `broker_id`: the number of a retry policy.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct RetryPolicySet {
    pub retry_policy_no: i64,
}

#[idempotent(key = msg.retry_policy_no, store = db)]
pub async fn on_retry_policy(db: &mut PgConnection, msg: &RetryPolicySet) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE policies SET active = TRUE WHERE no = $1").bind(msg.retry_policy_no).execute(&mut *db).await?;
    Ok(())
}
