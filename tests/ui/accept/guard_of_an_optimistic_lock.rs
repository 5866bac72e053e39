//! Trap `guard`: a deduction that a version protects.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Sale {
    pub sku: String,
    pub qty: i64,
    pub version: i64,
}

#[idempotent(
    guard = "UPDATE stock SET count = count - {msg.qty}, version = version + 1 WHERE sku = {msg.sku} AND version = {msg.version}",
    store = db,
)]
pub async fn on_sale(db: &mut PgConnection, msg: &Sale) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO picks (sku) VALUES ($1)").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}
