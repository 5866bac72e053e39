//! Trap `store`: a connection that the body binds mutably.

use idem_runtime::idempotent;
use sqlx::PgConnection;

async fn counted<'c>(db: &'c mut PgConnection, sku: &str) -> Result<&'c mut PgConnection, sqlx::Error> {
    sqlx::query("INSERT INTO counts (sku) VALUES ($1)").bind(sku).execute(&mut *db).await?;
    Ok(db)
}

#[idempotent(key = sku, store = db)]
pub async fn restock(mut db: &mut PgConnection, sku: &str) -> Result<(), sqlx::Error> {
    db = counted(db, sku).await?;
    sqlx::query("UPDATE stock SET count = count + 1 WHERE sku = $1").bind(sku).execute(&mut *db).await?;
    Ok(())
}
