use idem_runtime::idempotent;
use sqlx::{PgConnection, PgPool};

pub struct State<T>(pub T);

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(
    db: &mut PgConnection,
    State(pool): State<PgPool>,
    order_no: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    sqlx::query("INSERT INTO ledger (no) VALUES ($1)").bind(order_no).execute(&pool).await?;
    Ok(())
}

fn main() {}
