//! Trap `computed`: a conversion to text that loses nothing.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct SlotTaken {
    pub track: std::net::Ipv4Addr,
    pub slot: i64,
}

#[idempotent(key = msg.track.to_string() + "/" + msg.slot, store = db)]
pub async fn on_slot(db: &mut SqliteConnection, msg: &SlotTaken) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE slots SET taken = TRUE WHERE no = ?").bind(msg.slot).execute(&mut *db).await?;
    Ok(())
}
