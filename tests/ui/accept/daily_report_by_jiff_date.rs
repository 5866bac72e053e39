//! Trap `time`: a plain date of jiff, in string form.

use idem_runtime::idempotent;
use jiff::civil::Date;
use sqlx::SqliteConnection;

pub struct ReportDue {
    pub branch: i64,
    pub day: Date,
}

#[idempotent(key = "msg.branch + '/' + msg.day", store = "db")]
pub async fn on_report(db: &mut SqliteConnection, msg: &ReportDue) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE branches SET reported = TRUE WHERE no = ?").bind(msg.branch).execute(&mut *db).await?;
    Ok(())
}
