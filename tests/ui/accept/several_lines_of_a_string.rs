//! Trap `separator`: a key on several lines of one string.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Metering {
    pub meter: String,
    pub channel: u8,
    pub day: u32,
}

#[idempotent(
    key = "msg.meter + '/' +
           msg.channel + '/' +
           msg.day",
    store = "db"
)]
pub async fn on_metering(db: &mut MySqlConnection, msg: &Metering) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO meterings (meter, day) VALUES (?, ?)")
        .bind(&msg.meter)
        .bind(msg.day)
        .execute(&mut *db)
        .await?;
    Ok(())
}
