//! Trap `store`: an alias of a connection.

use idem_runtime::idempotent;

pub type Db = sqlx::MySqlConnection;

#[idempotent(key = sku, store = db)]
pub async fn restock(db: &mut Db, sku: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stock SET count = count + 1 WHERE sku = ?").bind(sku).execute(&mut *db).await?;
    Ok(())
}
