use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Heartbeat {
    pub device: String,
}

#[idempotent(key = msg.device + ":" + std::time::SystemTime::now(), store = db)]
pub async fn on_heartbeat(db: &mut PgConnection, msg: &Heartbeat) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE devices SET alive = TRUE WHERE no = $1").bind(&msg.device).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
