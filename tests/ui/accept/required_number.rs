//! Trap `required`: a number that may be missing.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct VoteCast {
    pub poll: String,
    pub ballot: Option<i64>,
}

#[idempotent(key = msg.poll + "/" + msg.ballot?, store = db)]
pub async fn on_vote(db: &mut PgConnection, msg: &VoteCast) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE polls SET votes = votes + 1 WHERE no = $1").bind(&msg.poll).execute(&mut *db).await?;
    Ok(())
}
