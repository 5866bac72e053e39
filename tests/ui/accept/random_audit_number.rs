//! Trap `random`: the number of a random audit.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct AuditOrdered {
    pub random_audit_no: String,
}

#[idempotent(key = "msg.random_audit_no", store = "db")]
pub async fn on_audit(db: &mut SqliteConnection, msg: &AuditOrdered) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO audits (no) VALUES (?)").bind(&msg.random_audit_no).execute(&mut *db).await?;
    Ok(())
}
