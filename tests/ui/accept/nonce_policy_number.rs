//! Trap `random`: a policy number with the word nonce in it.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct PolicyChanged {
    pub nonce_policy_no: i64,
    pub revision: i64,
}

#[idempotent(key = msg.nonce_policy_no + "." + msg.revision, store = db)]
pub async fn on_policy_changed(db: &mut MySqlConnection, msg: &PolicyChanged) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE policies SET revision = revision + 1 WHERE no = ?")
        .bind(msg.nonce_policy_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
