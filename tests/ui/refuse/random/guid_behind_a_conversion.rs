use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct TicketBought {
    pub guid: u128,
}

#[idempotent(key = msg.guid.to_string(), store = db)]
pub async fn on_ticket(db: &mut PgConnection, msg: &TicketBought) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE tickets SET sold = TRUE WHERE id = $1").bind(msg.guid.to_string()).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
