//! Trap `store`: a connection by its full path.

#[idem_runtime::idempotent(key = sku, store = db)]
pub async fn restock(db: &mut ::sqlx::sqlite::SqliteConnection, sku: &str) -> ::sqlx::Result<()> {
    ::sqlx::query("UPDATE stock SET count = count + 1 WHERE sku = ?").bind(sku).execute(&mut *db).await?;
    Ok(())
}
