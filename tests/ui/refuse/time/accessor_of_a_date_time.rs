use chrono::{DateTime, Utc};
use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Settlement {
    pub merchant: String,
    pub closed: DateTime<Utc>,
}

#[idempotent(key = msg.merchant + ":" + msg.closed.timestamp_millis(), store = db)]
pub async fn on_settlement(db: &mut PgConnection, msg: &Settlement) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE settlements SET closed = TRUE WHERE merchant = $1")
        .bind(&msg.merchant)
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
