//! Trap `time`: a date as a number, by a name that is on no list.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Clearing {
    pub bank: String,
    pub settlement_date: u32,
}

#[idempotent(key = msg.bank + ":" + msg.settlement_date, store = db)]
pub async fn on_clearing(db: &mut PgConnection, msg: &Clearing) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE banks SET cleared = TRUE WHERE no = $1").bind(&msg.bank).execute(&mut *db).await?;
    Ok(())
}
