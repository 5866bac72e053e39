use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct RefundCallback {
    pub refund_no: Option<String>,
    pub line_no: u32,
}

#[idempotent(key = msg.refund_no? + msg.line_no, store = db)]
pub async fn on_refund(db: &mut MySqlConnection, msg: &RefundCallback) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE refunds SET status = 'DONE'").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
