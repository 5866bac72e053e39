use idem_runtime::{KeyPart, idempotent};
use sqlx::MySqlConnection;

#[derive(KeyPart)]
pub struct Rate(pub f64);

pub struct RateFixed {
    pub pair: String,
    pub rate: Rate,
}

#[idempotent(key = msg.pair + "=" + msg.rate, store = db)]
pub async fn on_rate_fixed(db: &mut MySqlConnection, msg: &RateFixed) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO rates (rate) VALUES (?)").bind(msg.rate.0).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
