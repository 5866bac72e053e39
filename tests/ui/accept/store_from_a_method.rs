//! Trap `store`: a store from a method, in string form.

use idem_runtime::{SqliteStore, idempotent};
use sqlx::SqliteConnection;

pub struct Warehouse {
    stores: Vec<SqliteStore>,
}

impl Warehouse {
    fn of(&self, sku: &str) -> &SqliteStore {
        &self.stores[sku.len() % self.stores.len()]
    }

    #[idempotent(key = "sku", store = "self.of(sku)", tx = "db", scope = "store_from_a_method.restock")]
    pub async fn restock(&self, db: &mut SqliteConnection, sku: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE stock SET count = count + 1 WHERE sku = ?").bind(sku).execute(&mut *db).await?;
        Ok(())
    }
}
