//! Trap `transaction`: an anonymous block of PL/pgSQL.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("DO $body$ BEGIN; PERFORM 1; END; $body$").execute(&mut *db).await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
