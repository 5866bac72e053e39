//! Trap `key_part`: a generic part that says it is stable.

use idem_runtime::{KeyPart, Stable, idempotent};
use sqlx::MySqlConnection;

pub struct Envelope<I> {
    pub id: I,
    pub sum: i64,
}

#[idempotent(key = msg.id, store = db, scope = "generic_stable_part.on_envelope")]
pub async fn on_envelope<I>(db: &mut MySqlConnection, msg: &Envelope<I>) -> Result<(), sqlx::Error>
where
    I: KeyPart<Risk = Stable> + Sync,
{
    sqlx::query("UPDATE totals SET total = total + ?").bind(msg.sum).execute(&mut *db).await?;
    Ok(())
}
