//! Trap `grammar`: a raw string with double quotes in it.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct LabelPrinted {
    pub printer: String,
    pub label_no: i64,
}

#[idempotent(key = r#"msg.printer + "/" + msg.label_no"#, store = "db")]
pub async fn on_label(db: &mut SqliteConnection, msg: &LabelPrinted) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE labels SET printed = TRUE WHERE no = ?").bind(msg.label_no).execute(&mut *db).await?;
    Ok(())
}
