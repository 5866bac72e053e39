//! Trap `separator`: a constant of the crate between two numbers.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub const ARROW: &str = "->";

pub struct Booked {
    pub from: i64,
    pub to: i64,
}

#[idempotent(key = msg.from + ARROW + msg.to, store = db)]
pub async fn on_booked(db: &mut PgConnection, msg: &Booked) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET booked = TRUE WHERE no = $1").bind(msg.to).execute(&mut *db).await?;
    Ok(())
}
