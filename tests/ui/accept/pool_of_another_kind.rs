//! Trap `pool`: a pool of connections to a cache.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Pool<M> {
    pub idle: Vec<M>,
}

pub struct CacheConnection;

#[idempotent(key = sku, store = db)]
pub async fn restock(
    db: &mut SqliteConnection,
    caches: &Pool<CacheConnection>,
    sku: &str,
) -> Result<usize, sqlx::Error> {
    sqlx::query("UPDATE stock SET count = count + 1 WHERE sku = ?").bind(sku).execute(&mut *db).await?;
    Ok(caches.idle.len())
}
