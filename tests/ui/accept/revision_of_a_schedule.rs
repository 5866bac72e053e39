//! Trap `time`: a revision of a timetable.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct TimetableChanged {
    pub line: String,
    pub timetable_revision: u32,
}

#[idempotent(key = msg.line + "." + msg.timetable_revision, store = db)]
pub async fn on_timetable(db: &mut MySqlConnection, msg: &TimetableChanged) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE timetables SET revision = revision + 1 WHERE line = ?")
        .bind(&msg.line)
        .execute(&mut *db)
        .await?;
    Ok(())
}
