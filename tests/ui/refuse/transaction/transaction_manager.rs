use idem_runtime::idempotent;
use sqlx::PgConnection;

/// Stands for the one of sqlx-core.
pub struct PgTransactionManager;

impl PgTransactionManager {
    pub async fn commit(_: &mut PgConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    PgTransactionManager::commit(&mut *db).await?;
    Ok(())
}

fn main() {}
