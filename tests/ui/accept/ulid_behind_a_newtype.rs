//! Trap `random`: a command id of type Ulid, made once by the operator console.

use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;
use ulid::Ulid;

#[derive(KeyPart)]
pub struct CommandId(pub Ulid);

pub struct DeviceCommand {
    pub device: String,
    pub command: CommandId,
}

#[idempotent(
    key = msg.device + ":" + msg.command,
    store = db,
    allow(random(msg.command), reason = "the console makes it once for each command and repeats it until it is acknowledged"),
)]
pub async fn on_command(db: &mut PgConnection, msg: &DeviceCommand) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO commands (device) VALUES ($1)").bind(&msg.device).execute(&mut *db).await?;
    Ok(())
}
