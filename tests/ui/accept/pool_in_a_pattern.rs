//! Trap `pool`: a pool inside an extractor's pattern, named as the pattern binds it.

use idem_runtime::idempotent;
use sqlx::{PgConnection, Pool, Postgres};

pub struct State<T>(pub T);

#[idempotent(
    key = order_no,
    store = db,
    allow(pool(replica), reason = "the replica answers read-only questions about stock"),
)]
pub async fn on_order_paid(
    db: &mut PgConnection,
    State(replica): State<Pool<Postgres>>,
    order_no: String,
) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(&replica).await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
