//! Trap `float`: a floating-point value that is no part of the key.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Reading {
    pub sensor: String,
    pub sequence: i64,
    pub celsius: f64,
}

#[idempotent(key = msg.sensor + "#" + msg.sequence, store = db)]
pub async fn on_reading(db: &mut SqliteConnection, msg: &Reading) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO readings (celsius) VALUES (?)").bind(msg.celsius).execute(&mut *db).await?;
    Ok(())
}
