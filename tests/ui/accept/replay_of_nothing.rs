//! Trap `argument`: a result of nothing that is kept.

use idem_runtime::{Replayed, idempotent};
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, replay)]
pub async fn on_paid(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET paid = TRUE WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}

pub async fn call(store: &idem_runtime::PgStore) -> Replayed<Result<(), sqlx::Error>> {
    on_paid(store, "A1").await
}
