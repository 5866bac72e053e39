use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Signed {
    pub signature: Vec<u8>,
}

#[idempotent(key = msg.signature, store = db)]
pub async fn on_signed(db: &mut PgConnection, msg: &Signed) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO seen (signature) VALUES ($1)").bind(&msg.signature).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
