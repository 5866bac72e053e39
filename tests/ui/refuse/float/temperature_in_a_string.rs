use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct TemperatureAlarm {
    pub sensor: u32,
    pub celsius: f32,
}

#[idempotent(key = "msg.sensor + ':' + msg.celsius", store = "db")]
pub async fn on_alarm(db: &mut SqliteConnection, msg: &TemperatureAlarm) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO alarms (celsius) VALUES (?)").bind(msg.celsius).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
