//! Trap `transaction`: a COMMIT that is sent to another system, with the reason in writing.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Mainframe {
    pub lines: Vec<&'static str>,
}

impl Mainframe {
    pub fn execute(&mut self, line: &'static str) {
        self.lines.push(line);
    }
}

#[idempotent(
    key = order_no,
    store = db,
    allow(transaction(db), reason = "the words go to the mainframe and never to this connection"),
)]
pub async fn on_order(db: &mut MySqlConnection, host: &mut Mainframe, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'SENT' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
    host.execute("BEGIN");
    host.execute("COMMIT");
    Ok(())
}
