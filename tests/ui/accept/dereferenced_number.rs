//! Trap `computed`: a borrowed number with a star in front of it.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct PulseCounted {
    pub meter: &'static i64,
    pub pulse: &'static i64,
}

#[idempotent(key = *msg.meter + "#" + *msg.pulse, store = db)]
pub async fn on_pulse(db: &mut MySqlConnection, msg: &PulseCounted) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE meters SET pulses = pulses + 1 WHERE no = ?").bind(*msg.meter).execute(&mut *db).await?;
    Ok(())
}
