#![allow(non_snake_case)]

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct GpsFix {
    pub vehicle: String,
    pub sendTime: i64,
}

#[idempotent(key = "msg.vehicle + ':' + msg.sendTime", store = "db")]
pub async fn on_gps_fix(db: &mut SqliteConnection, msg: &GpsFix) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO fixes (vehicle) VALUES (?)").bind(&msg.vehicle).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
