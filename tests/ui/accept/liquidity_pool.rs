//! Trap `pool`: a pool of money.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Pool {
    pub no: String,
}

#[idempotent(key = pool.no + "/" + deposit_no, store = db)]
pub async fn on_deposit(db: &mut PgConnection, pool: &Pool, deposit_no: i64) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE pools SET sum = sum + 1 WHERE no = $1").bind(&pool.no).execute(&mut *db).await?;
    Ok(())
}
