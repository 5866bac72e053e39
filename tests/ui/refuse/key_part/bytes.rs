use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct SignedOrder {
    pub signature: Vec<u8>,
}

#[idempotent(key = msg.signature, store = db)]
pub async fn on_signed(db: &mut PgConnection, msg: &SignedOrder) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO seen (signature) VALUES ($1)").bind(&msg.signature).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
