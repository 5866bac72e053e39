//! Trap `transaction`: a state named COMMIT, compared and stored.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    let state = if order_no.ends_with("COMMIT") { "COMMIT" } else { "ROLLBACK" };
    sqlx::query("UPDATE orders SET status = $1 WHERE no = $2").bind(state).bind(order_no).execute(&mut *db).await?;
    Ok(())
}
