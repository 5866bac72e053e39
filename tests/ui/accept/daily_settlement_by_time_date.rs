//! Trap `time`: a plain date of the time crate.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;
use time::Date;

pub struct Settlement {
    pub merchant: String,
    pub day: Date,
}

#[idempotent(key = msg.merchant + "/" + msg.day, store = db)]
pub async fn on_settlement(db: &mut MySqlConnection, msg: &Settlement) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE merchants SET settled = TRUE WHERE no = ?").bind(&msg.merchant).execute(&mut *db).await?;
    Ok(())
}
