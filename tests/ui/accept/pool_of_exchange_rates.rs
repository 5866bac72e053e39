//! Trap `pool`: a pool that is only read, with the reason in writing.

use idem_runtime::idempotent;
use sqlx::{PgConnection, PgPool};

#[idempotent(
    key = order_no,
    store = db,
    allow(pool(rates), reason = "the rates of the day live in another database and are only read"),
)]
pub async fn on_order_paid(db: &mut PgConnection, rates: &PgPool, order_no: &str) -> Result<(), sqlx::Error> {
    let rate: i64 = sqlx::query_scalar("SELECT rate FROM rates WHERE day = CURRENT_DATE").fetch_one(rates).await?;
    sqlx::query("UPDATE orders SET rate = $1 WHERE no = $2").bind(rate).bind(order_no).execute(&mut *db).await?;
    Ok(())
}
