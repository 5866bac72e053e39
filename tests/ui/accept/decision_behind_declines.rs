//! Trap `argument`: a body that may decline and says so.

use idem_runtime::{Decision, Handled, Outcome, idempotent};
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, declines, retry = 1)]
pub async fn on_paid(db: &mut PgConnection, order_no: &str) -> Result<Decision<u8>, sqlx::Error> {
    let found = sqlx::query("SELECT 1 FROM orders WHERE no = $1").bind(order_no).fetch_optional(&mut *db).await?;
    Ok(if found.is_some() { Decision::Done(1) } else { Decision::drop("the order was cancelled") })
}

pub async fn call(store: &idem_runtime::PgStore) -> Handled<Result<u8, sqlx::Error>> {
    let outcome: Outcome<u8> = on_paid(store, "A1").await?;
    Ok(outcome)
}
