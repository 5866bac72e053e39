//! Trap `key_part`: a flag and a letter.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct SeatTaken {
    pub row: char,
    pub seat: u8,
    pub reserved: bool,
}

#[idempotent(key = msg.row + "-" + msg.seat + "-" + msg.reserved, store = db)]
pub async fn on_seat(db: &mut SqliteConnection, msg: &SeatTaken) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE seats SET taken = TRUE WHERE no = ?").bind(msg.seat).execute(&mut *db).await?;
    Ok(())
}
