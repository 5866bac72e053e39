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

#[idempotent(key = "msg.event_no()", store = "db")]
pub async fn on_webhook(db: &mut PgConnection, msg: &Webhook) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO events (no) VALUES ($1)").bind(msg.event_no()).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
