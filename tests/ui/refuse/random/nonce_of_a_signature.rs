use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct SignedCallback {
    pub merchant: String,
    pub nonce_str: String,
}

#[idempotent(key = msg.merchant + ":" + msg.nonce_str, store = db)]
pub async fn on_callback(db: &mut SqliteConnection, msg: &SignedCallback) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE payments SET seen = TRUE WHERE merchant = ?").bind(&msg.merchant).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
