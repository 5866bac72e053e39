use std::time::SystemTime;

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Reading {
    pub meter_no: String,
    pub taken: SystemTime,
}

#[idempotent(key = msg.meter_no + ":" + msg.taken, store = db)]
pub async fn on_reading(db: &mut PgConnection, msg: &Reading) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO readings (meter_no) VALUES ($1)").bind(&msg.meter_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
