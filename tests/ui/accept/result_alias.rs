//! Trap `function`: an alias of a result.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub enum ShopError {
    Database(sqlx::Error),
}

impl From<sqlx::Error> for ShopError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

pub type Result<T> = core::result::Result<T, ShopError>;

#[idempotent(key = order_no, store = db)]
pub async fn cancel(db: &mut PgConnection, order_no: &str) -> Result<u64> {
    let done =
        sqlx::query("UPDATE orders SET status = 'CANCELLED' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(done.rows_affected())
}
