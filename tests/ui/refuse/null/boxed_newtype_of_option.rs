use idem_runtime::{KeyPart, idempotent};
use sqlx::MySqlConnection;

#[derive(KeyPart)]
pub struct Shelf {
    pub label: Option<String>,
}

pub struct StockCounted {
    pub shelf: Box<Shelf>,
}

#[idempotent(key = msg.shelf, store = db)]
pub async fn on_stock_counted(db: &mut MySqlConnection, msg: &StockCounted) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stock SET counted = TRUE WHERE shelf = ?").bind(&msg.shelf.label).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
