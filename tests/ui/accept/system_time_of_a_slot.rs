//! Trap `time`: a slot of type SystemTime that the calendar fixes.

use std::time::SystemTime;

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct SlotBooked {
    pub room: i64,
    pub slot: SystemTime,
}

#[idempotent(
    key = msg.room + "/" + msg.slot,
    store = db,
    allow(time(msg.slot), reason = "slots are whole hours of the calendar, not the time of the click"),
)]
pub async fn on_slot_booked(db: &mut SqliteConnection, msg: &SlotBooked) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE rooms SET booked = TRUE WHERE no = ?").bind(msg.room).execute(&mut *db).await?;
    Ok(())
}
