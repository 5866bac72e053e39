use std::sync::Arc;

use idem_runtime::idempotent;
use sqlx::{PgConnection, PgPool};

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, pool: Arc<PgPool>, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    let _ = pool;
    Ok(())
}

fn main() {}
