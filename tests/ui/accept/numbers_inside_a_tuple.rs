//! Trap `key_part`: the numbers inside a tuple.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct CellChanged {
    pub sheet: String,
    pub at: (i64, (i64, i64)),
}

#[idempotent(key = msg.sheet + "!" + msg.at.0 + "," + msg.at.1.1, store = db)]
pub async fn on_cell_changed(db: &mut PgConnection, msg: &CellChanged) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE sheets SET changed = TRUE WHERE no = $1").bind(&msg.sheet).execute(&mut *db).await?;
    Ok(())
}
