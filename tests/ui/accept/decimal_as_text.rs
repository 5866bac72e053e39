//! Trap `float`: a decimal that the message carries as text.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct RateFixed {
    pub pair: String,
    pub rate: String,
}

#[idempotent(key = msg.pair + "=" + msg.rate, store = db)]
pub async fn on_fx_fixed(db: &mut MySqlConnection, msg: &RateFixed) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO rates (rate) VALUES (?)").bind(&msg.rate).execute(&mut *db).await?;
    Ok(())
}
