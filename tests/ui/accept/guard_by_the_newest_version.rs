//! Trap `guard`: events out of order, and only newer ones count.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Sale {
    pub sku: String,
    pub qty: i64,
    pub version: i64,
}

#[idempotent(
    guard = "UPDATE stock SET count = {msg.qty}, version = {msg.version} WHERE sku = {msg.sku} AND version < {msg.version}",
    store = db,
)]
pub async fn on_level(db: &mut MySqlConnection, msg: &Sale) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO picks (sku) VALUES (?)").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}
