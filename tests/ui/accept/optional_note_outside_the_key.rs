//! Trap `null`: an optional field that is no part of the key.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPlaced {
    pub order_no: String,
    pub note: Option<String>,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_placed(db: &mut PgConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (note) VALUES ($1)").bind(&msg.note).execute(&mut *db).await?;
    Ok(())
}
