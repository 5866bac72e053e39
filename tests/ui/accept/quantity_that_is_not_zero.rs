//! Trap `float`: a quantity as a non-zero integer.

use std::num::NonZeroU32;

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct PickConfirmed {
    pub pick_no: i64,
    pub pieces: NonZeroU32,
}

#[idempotent(key = msg.pick_no + "x" + msg.pieces, store = db)]
pub async fn on_pick(db: &mut SqliteConnection, msg: &PickConfirmed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE picks SET done = TRUE WHERE no = ?").bind(msg.pick_no).execute(&mut *db).await?;
    Ok(())
}
