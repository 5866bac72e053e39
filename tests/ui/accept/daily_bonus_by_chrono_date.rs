//! Trap `time`: a plain date: one bonus a day.

use chrono::NaiveDate;
use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct SignIn {
    pub member_no: i64,
    pub day: NaiveDate,
}

#[idempotent(key = msg.member_no + "@" + msg.day, store = db)]
pub async fn on_sign_in(db: &mut PgConnection, msg: &SignIn) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE members SET points = points + 1 WHERE no = $1").bind(msg.member_no).execute(&mut *db).await?;
    Ok(())
}
