//! Trap `time`: a stock code whose name begins with ts.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct TradeReported {
    pub ts_code: String,
    pub trade_no: i64,
}

#[idempotent(key = msg.ts_code + "#" + msg.trade_no, store = db)]
pub async fn on_trade(db: &mut PgConnection, msg: &TradeReported) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE trades SET reported = TRUE WHERE no = $1").bind(msg.trade_no).execute(&mut *db).await?;
    Ok(())
}
