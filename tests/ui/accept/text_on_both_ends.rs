//! Trap `separator`: text on both ends and between.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Counted {
    pub site: String,
    pub lot: String,
}

#[idempotent(key = "[" + msg.site + "|" + msg.lot + "]", store = db)]
pub async fn on_counted(db: &mut MySqlConnection, msg: &Counted) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE lots SET counted = TRUE WHERE no = ?").bind(&msg.lot).execute(&mut *db).await?;
    Ok(())
}
