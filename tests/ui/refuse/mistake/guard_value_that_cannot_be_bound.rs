use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Stock {
    pub sku: String,
    pub version: u64,
}

#[idempotent(
    guard = "UPDATE stock SET version = version + 1 WHERE sku = {msg.sku} AND version = {msg.version}",
    store = db,
)]
pub async fn on_stock(db: &mut PgConnection, msg: &Stock) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stock SET count = count - 1 WHERE sku = $1").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
