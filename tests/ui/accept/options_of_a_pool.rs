//! Trap `pool`: settings of a pool, through which nothing can be written.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct PoolSettings {
    pub tenant: String,
    pub size: i64,
}

#[idempotent(key = pool.tenant + ":" + pool.size, store = db)]
pub async fn on_pool_resized(db: &mut MySqlConnection, pool: PoolSettings) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE tenants SET pool = ? WHERE no = ?").bind(pool.size).bind(pool.tenant).execute(&mut *db).await?;
    Ok(())
}
