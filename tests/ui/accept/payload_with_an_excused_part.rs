//! Trap `random`: a payload part that is excused with a reason.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Paid {
    pub order_no: String,
    pub nonce: String,
}

#[idempotent(
    key = msg.order_no,
    payload = msg.nonce,
    store = db,
    allow(random(msg.nonce), reason = "the signed text carries it, and a repeat has the same signed text"),
)]
pub async fn on_paid(db: &mut PgConnection, msg: &Paid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET paid = TRUE WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
