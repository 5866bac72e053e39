use idem_runtime::idempotent;
use sqlx::PgConnection;
use ulid::Ulid;

pub struct DeviceCommand {
    pub device: String,
    pub command: Ulid,
}

#[idempotent(key = msg.device + ":" + msg.command, store = db)]
pub async fn on_command(db: &mut PgConnection, msg: &DeviceCommand) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO commands (device) VALUES ($1)").bind(&msg.device).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
