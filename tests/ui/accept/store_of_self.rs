//! Trap `store`: a store in a field, and a connection that callers do not pass.

use idem_runtime::{MySqlStore, idempotent};
use sqlx::MySqlConnection;

pub struct Warehouse {
    pub store: MySqlStore,
}

impl Warehouse {
    #[idempotent(key = sku, store = self.store, tx = db, scope = "store_of_self.restock")]
    pub async fn restock(&self, db: &mut MySqlConnection, sku: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE stock SET count = count + 1 WHERE sku = ?").bind(sku).execute(&mut *db).await?;
        Ok(())
    }
}

pub async fn deliver(warehouse: &Warehouse) -> bool {
    warehouse.restock("A-1").await.is_ok_and(|outcome| outcome.is_first())
}
