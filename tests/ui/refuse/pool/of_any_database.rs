use idem_runtime::idempotent;
use sqlx::{Database, PgConnection, Pool};

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid<D: Database>(
    db: &mut PgConnection,
    archive: &Pool<D>,
    order_no: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    drop(archive.acquire().await?);
    Ok(())
}

fn main() {}
