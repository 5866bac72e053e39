//! Trap `transaction`: a savepoint by the driver, committed and rolled back.

use idem_runtime::idempotent;
use sqlx::{Connection, PgConnection};

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    let mut bonus = db.begin().await?;
    sqlx::query("UPDATE members SET points = points + 1").execute(&mut *bonus).await?;
    if order_no.len() > 3 {
        bonus.commit().await?;
    } else {
        bonus.rollback().await?;
    }
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
