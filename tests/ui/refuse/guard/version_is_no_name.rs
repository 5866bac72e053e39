use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Sale {
    pub sku: String,
    pub version: i64,
}

#[idempotent(
    guard = "UPDATE stock SET version = version + 1 WHERE version = {msg.version}",
    store = db,
)]
pub async fn on_sale(db: &mut SqliteConnection, msg: &Sale) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO picks (sku) VALUES (?)").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
