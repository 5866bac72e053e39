//! Trap `time`: a business number inside a struct named like a time.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Place {
    pub order_no: String,
}

pub struct AuditEntry {
    pub created_at: Place,
}

#[idempotent(key = msg.created_at.order_no, store = db)]
pub async fn on_audit_entry(db: &mut MySqlConnection, msg: &AuditEntry) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET audited = TRUE WHERE no = ?")
        .bind(&msg.created_at.order_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
