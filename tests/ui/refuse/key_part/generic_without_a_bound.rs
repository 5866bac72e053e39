use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Envelope<I> {
    pub id: I,
}

#[idempotent(key = msg.id, store = db, scope = "generic_without_a_bound.on_envelope")]
pub async fn on_envelope<I: Sync>(db: &mut PgConnection, msg: &Envelope<I>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE envelopes SET opened = TRUE").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
