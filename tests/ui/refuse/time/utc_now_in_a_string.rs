use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Heartbeat {
    pub device: String,
}

#[idempotent(key = "msg.device + ':' + Utc::now()", store = "db")]
pub async fn on_heartbeat(db: &mut SqliteConnection, msg: &Heartbeat) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE devices SET alive = TRUE WHERE no = ?").bind(&msg.device).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
