//! Trap `required`: a required part in parentheses.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct VoteCast {
    pub poll: String,
    pub ballot: Option<i64>,
}

#[idempotent(key = msg.poll + "/" + (msg.ballot)?, store = db)]
pub async fn on_vote(db: &mut MySqlConnection, msg: &VoteCast) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE polls SET votes = votes + 1 WHERE no = ?").bind(&msg.poll).execute(&mut *db).await?;
    Ok(())
}
