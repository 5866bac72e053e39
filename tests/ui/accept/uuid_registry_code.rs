//! Trap `random`: a registry code with the word uuid in its name.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct DeviceListed {
    pub uuid_registry_code: String,
}

#[idempotent(key = msg.uuid_registry_code, store = db)]
pub async fn on_device_listed(db: &mut PgConnection, msg: &DeviceListed) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO devices (code) VALUES ($1)").bind(&msg.uuid_registry_code).execute(&mut *db).await?;
    Ok(())
}
