//! Trap `null`: a payload whose remark may be missing.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Refund {
    pub no: String,
    pub amount: i64,
    pub remark: Option<String>,
}

#[idempotent(key = msg.no, payload = msg.amount + ":" + msg.remark, store = db)]
pub async fn on_refund(db: &mut PgConnection, msg: &Refund) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE refunds SET done = TRUE WHERE no = $1").bind(&msg.no).execute(&mut *db).await?;
    Ok(())
}
