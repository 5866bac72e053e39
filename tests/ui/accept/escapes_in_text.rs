//! Trap `grammar`: text with an escape and a character beyond ASCII.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct RowImported {
    pub file: String,
    pub row: i64,
}

#[idempotent(key = msg.file + "\t№" + msg.row, store = db)]
pub async fn on_row(db: &mut PgConnection, msg: &RowImported) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE rows SET imported = TRUE WHERE no = $1").bind(msg.row).execute(&mut *db).await?;
    Ok(())
}
