//! Trap `computed`: text whose blanks are cut off.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct BarcodeScanned {
    pub code: String,
    pub gate: i64,
}

#[idempotent(key = msg.code.trim() + "@" + msg.gate, store = db)]
pub async fn on_scan(db: &mut PgConnection, msg: &BarcodeScanned) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE goods SET scanned = TRUE WHERE code = $1").bind(&msg.code).execute(&mut *db).await?;
    Ok(())
}
