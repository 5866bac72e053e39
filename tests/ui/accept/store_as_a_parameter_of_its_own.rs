//! Trap `pool`: the store itself as a parameter, beside the connection that it lends.

use idem_runtime::{PgStore, idempotent};
use sqlx::PgConnection;

#[idempotent(key = sku, store = store, tx = db)]
pub async fn restock(store: &PgStore, db: &mut PgConnection, sku: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stock SET count = count + 1 WHERE sku = $1").bind(sku).execute(&mut *db).await?;
    Ok(())
}
