use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Sale {
    pub sku: String,
    pub version: i64,
}

#[idempotent(
    guard = "UPDATE stock SET version = version + 1, price_version = price_version + 1 WHERE sku = {msg.sku} AND (version = {msg.version} OR price_version = {msg.version})",
    store = db,
)]
pub async fn on_sale(db: &mut PgConnection, msg: &Sale) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO picks (sku) VALUES ($1)").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
