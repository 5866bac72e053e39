//! Trap `function`: a value of its own.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Receipt {
    pub rows: u64,
}

#[idempotent(key = order_no, store = db)]
pub async fn ship(db: &mut PgConnection, order_no: &str) -> Result<Receipt, sqlx::Error> {
    let done =
        sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(Receipt { rows: done.rows_affected() })
}
