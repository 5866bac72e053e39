//! Trap `broker_id`: an id that the client makes once per action, excused with a reason, names the delivery too.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Submission {
    pub request_id: String,
    pub form: String,
}

#[idempotent(
    key = msg.form + ":" + msg.request_id,
    store = db,
    delivery = msg.request_id,
    allow(random(msg.request_id), reason = "the client makes it once per submission"),
)]
pub async fn on_submission(db: &mut SqliteConnection, msg: &Submission) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO submissions (form) VALUES (?)").bind(&msg.form).execute(&mut *db).await?;
    Ok(())
}
