//! Trap `time`: an accounting period as text, such as 2026-01.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct MonthClosed {
    pub book: String,
    pub period: String,
}

#[idempotent(key = msg.book + ":" + msg.period, store = db)]
pub async fn on_month_closed(db: &mut SqliteConnection, msg: &MonthClosed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE periods SET closed = TRUE WHERE period = ?").bind(&msg.period).execute(&mut *db).await?;
    Ok(())
}
