//! Trap `separator`: text behind a required part.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct LineRefunded {
    pub refund_no: Option<String>,
    pub line_no: i64,
}

#[idempotent(key = msg.refund_no? + "#" + msg.line_no, store = db)]
pub async fn on_line_refunded(db: &mut PgConnection, msg: &LineRefunded) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE lines SET refunded = TRUE WHERE no = $1").bind(msg.line_no).execute(&mut *db).await?;
    Ok(())
}
