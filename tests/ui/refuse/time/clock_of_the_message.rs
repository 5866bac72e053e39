use std::time::SystemTime;

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct SessionEnd {
    pub session_no: u64,
    pub login: SystemTime,
}

#[idempotent(key = msg.session_no + ":" + msg.login.elapsed(), store = db)]
pub async fn on_session_end(db: &mut MySqlConnection, msg: &SessionEnd) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE sessions SET open = FALSE WHERE no = ?").bind(msg.session_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
