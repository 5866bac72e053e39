//! Trap `time`: the start of an interval, of type DateTime, which the meter repeats unchanged.

use chrono::{DateTime, Utc};
use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Metering {
    pub meter: String,
    pub start: DateTime<Utc>,
}

#[idempotent(
    key = "msg.meter + '@' + msg.start",
    store = "db",
    allow(time(msg.start), reason = "intervals begin on the quarter hour, and a repeat carries the same one"),
)]
pub async fn on_metering(db: &mut MySqlConnection, msg: &Metering) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE meters SET read = TRUE WHERE no = ?").bind(&msg.meter).execute(&mut *db).await?;
    Ok(())
}
