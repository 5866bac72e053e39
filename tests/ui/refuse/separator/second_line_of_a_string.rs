use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Metering {
    pub meter: u64,
    pub channel: u8,
    pub day: u32,
}

#[idempotent(
    key = "msg.meter + '/' +
           msg.channel + msg.day",
    store = "db"
)]
pub async fn on_metering(db: &mut SqliteConnection, msg: &Metering) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO meterings (day) VALUES (?)").bind(msg.day).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
