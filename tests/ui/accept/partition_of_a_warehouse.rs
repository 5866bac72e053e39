//! Trap `broker_id`: a partition of a warehouse.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct StockMoved {
    pub move_no: i64,
    pub partition: String,
}

#[idempotent(key = msg.move_no + "@" + msg.partition, store = db)]
pub async fn on_stock_moved(db: &mut MySqlConnection, msg: &StockMoved) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE moves SET done = TRUE WHERE no = ?").bind(msg.move_no).execute(&mut *db).await?;
    Ok(())
}
