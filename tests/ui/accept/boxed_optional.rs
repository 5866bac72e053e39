//! Trap `null`: an optional value behind a box.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct StockCounted {
    pub sku: String,
    pub shelf: Box<Option<String>>,
}

#[idempotent(key = msg.sku + "@" + msg.shelf?, store = db)]
pub async fn on_stock_counted(db: &mut PgConnection, msg: &StockCounted) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stock SET counted = TRUE WHERE sku = $1").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}
