//! Trap `time`: a queue number that begins with the word now.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct TicketCalled {
    pub counter: i64,
    pub now_serving_no: i64,
}

#[idempotent(key = msg.counter + ":" + msg.now_serving_no, store = db)]
pub async fn on_ticket_called(db: &mut PgConnection, msg: &TicketCalled) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE counters SET serving = TRUE WHERE no = $1").bind(msg.counter).execute(&mut *db).await?;
    Ok(())
}
