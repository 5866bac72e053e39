use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct RefundCallback {
    pub out_trade_no: String,
    pub refund_no: Option<String>,
}

#[idempotent(key = msg.out_trade_no + ":" + msg.refund_no, store = db)]
pub async fn on_refund(db: &mut PgConnection, msg: &RefundCallback) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE refunds SET status = 'DONE' WHERE refund_no = $1")
        .bind(&msg.refund_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
