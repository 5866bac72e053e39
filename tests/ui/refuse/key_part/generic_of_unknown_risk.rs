use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;

pub struct Envelope<I> {
    pub id: I,
}

#[idempotent(key = msg.id, store = db, scope = "generic_of_unknown_risk.on_envelope")]
pub async fn on_envelope<I: KeyPart + Sync>(db: &mut PgConnection, msg: &Envelope<I>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE envelopes SET opened = TRUE").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
