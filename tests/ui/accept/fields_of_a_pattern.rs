//! Trap `root`: variables that a parameter's pattern binds.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: String,
    pub cents: i64,
    pub channel: String,
}

#[idempotent(key = order_no + ":" + via, store = db)]
pub async fn on_order_paid(
    db: &mut PgConnection,
    OrderPaid { order_no, cents, channel: via }: OrderPaid,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET paid = $1 WHERE no = $2").bind(cents).bind(order_no).execute(&mut *db).await?;
    drop(via);
    Ok(())
}
