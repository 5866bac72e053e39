//! Trap `scope`: a one-time token on a method.

use idem_runtime::{PgStore, idempotent};
use sqlx::PgConnection;

pub struct Shop {
    store: PgStore,
}

impl Shop {
    #[idempotent(token = token, store = self.store, tx = db, scope = "order.submit")]
    pub async fn submit(&self, db: &mut PgConnection, token: &str, sku: &str) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO orders (sku) VALUES ($1)").bind(sku).execute(&mut *db).await?;
        Ok(())
    }
}
