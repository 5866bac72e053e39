//! Trap `random`: a request number that the business counts.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct LeaveRequest {
    pub staff_no: i64,
    pub request_no: i64,
}

#[idempotent(key = msg.staff_no + "/" + msg.request_no, store = db)]
pub async fn on_leave_request(db: &mut MySqlConnection, msg: &LeaveRequest) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE leaves SET state = 'ASKED' WHERE no = ?").bind(msg.request_no).execute(&mut *db).await?;
    Ok(())
}
