//! Trap `random`: a business number inside a struct named like a random source.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Draw {
    pub draw_no: i64,
    pub ticket_no: i64,
}

pub struct TicketSold {
    pub random: Draw,
}

#[idempotent(key = msg.random.draw_no + "/" + msg.random.ticket_no, store = db)]
pub async fn on_ticket(db: &mut MySqlConnection, msg: &TicketSold) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE tickets SET sold = TRUE WHERE no = ?").bind(msg.random.ticket_no).execute(&mut *db).await?;
    Ok(())
}
