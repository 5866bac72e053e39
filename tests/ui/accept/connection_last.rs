//! Trap `store`: a connection that is not the first parameter.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = sku + "x" + pieces, store = conn)]
pub async fn restock(sku: &str, pieces: i64, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stock SET count = count + $1 WHERE sku = $2")
        .bind(pieces)
        .bind(sku)
        .execute(&mut *conn)
        .await?;
    Ok(())
}
