use std::time::SystemTime;

use idem_runtime::{KeyPart, idempotent};
use sqlx::MySqlConnection;

#[derive(KeyPart)]
pub struct ClosedAt(pub SystemTime);

pub struct ShiftClosed {
    pub till: u16,
    pub until: ClosedAt,
}

#[idempotent(key = msg.till + "@" + msg.until, store = db)]
pub async fn on_shift_closed(db: &mut MySqlConnection, msg: &ShiftClosed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE tills SET closed = TRUE WHERE no = ?").bind(msg.till).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
