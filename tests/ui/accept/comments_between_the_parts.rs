//! Trap `grammar`: comments between the parts.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Payout {
    pub merchant: String,
    pub day: u32,
}

#[idempotent(
    // One payout a day.
    key = msg.merchant
        + "/" // The day is the merchant's own.
        + msg.day,
    store = db,
)]
pub async fn on_payout(db: &mut PgConnection, msg: &Payout) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE merchants SET paid = TRUE WHERE no = $1").bind(&msg.merchant).execute(&mut *db).await?;
    Ok(())
}
