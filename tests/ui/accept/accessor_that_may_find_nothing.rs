//! Trap `null`: an accessor that returns an optional header.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Webhook {
    headers: Vec<(String, String)>,
}

impl Webhook {
    pub fn event_no(&self) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == "Event-No").map(|(_, value)| value.as_str())
    }
}

#[idempotent(key = hook.event_no()?, store = db)]
pub async fn on_webhook(db: &mut PgConnection, hook: &Webhook) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO events (no) VALUES ($1)").bind(hook.event_no()).execute(&mut *db).await?;
    Ok(())
}
