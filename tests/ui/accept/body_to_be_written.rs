//! Trap `function`: a body that is not written yet.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn ship(db: &mut PgConnection, order_no: &str) -> Result<u64, sqlx::Error> {
    let _ = (db, order_no);
    todo!()
}
