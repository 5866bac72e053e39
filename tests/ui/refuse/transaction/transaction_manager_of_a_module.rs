use idem_runtime::idempotent;
use sqlx::SqliteConnection;

/// Stands for the one of sqlx-core.
pub struct LiteTransactionManager;

impl LiteTransactionManager {
    pub async fn rollback(_: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    self::LiteTransactionManager::rollback(db).await?;
    Ok(())
}

fn main() {}
