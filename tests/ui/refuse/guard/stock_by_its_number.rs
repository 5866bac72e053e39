use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Sale {
    pub sku: String,
}

#[idempotent(
    guard = "UPDATE stock SET count = count - 1 WHERE sku = {msg.sku}",
    store = db,
)]
pub async fn on_sale(db: &mut MySqlConnection, msg: &Sale) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO picks (sku) VALUES (?)").bind(&msg.sku).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
