//! Trap `argument`: a runtime that a facade exports under another name.

use sqlx::MySqlConnection;

pub mod facade {
    pub use idem_runtime as once;
    pub use idem_runtime::idempotent;
}

#[facade::idempotent(key = order_no, store = db, crate = facade::once)]
pub async fn on_order_paid(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    Ok(())
}
