//! Trap `broker_id`: an account inside a struct named offset.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Offset {
    pub account: String,
}

pub struct Netting {
    pub netting_no: i64,
    pub offset: Offset,
}

#[idempotent(key = msg.netting_no + ">" + msg.offset.account, store = db)]
pub async fn on_netting(db: &mut MySqlConnection, msg: &Netting) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET netted = TRUE WHERE no = ?").bind(&msg.offset.account).execute(&mut *db).await?;
    Ok(())
}
