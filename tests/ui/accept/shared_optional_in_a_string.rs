//! Trap `null`: an optional value behind a shared pointer.

use std::sync::Arc;

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct StockReserved {
    pub sku: String,
    pub reservation_no: Arc<Option<String>>,
}

#[idempotent(key = "msg.sku + '/' + msg.reservation_no?", store = "db")]
pub async fn on_stock_reserved(db: &mut MySqlConnection, msg: &StockReserved) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stock SET reserved = reserved + 1 WHERE sku = ?").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}
