//! Trap `store`: a connection that is a type parameter.

use idem_runtime::{Connection, idempotent};

#[idempotent(key = sku, store = db)]
pub async fn restock<C: Connection>(db: &mut C, sku: &str) -> Result<usize, core::fmt::Error> {
    let _ = db;
    Ok(sku.len())
}
