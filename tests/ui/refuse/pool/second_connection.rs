use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(
    db: &mut PgConnection,
    ledger: &mut PgConnection,
    order_no: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    sqlx::query("INSERT INTO ledger (no) VALUES ($1)").bind(order_no).execute(&mut *ledger).await?;
    Ok(())
}

fn main() {}
