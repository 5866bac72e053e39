//! Trap `repeat`: a field whose name begins with the other one's.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct ShelfMoved {
    pub shelf: String,
    pub shelf_no: i64,
}

#[idempotent(key = msg.shelf + "/" + msg.shelf_no, store = db)]
pub async fn on_shelf(db: &mut SqliteConnection, msg: &ShelfMoved) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE shelves SET moved = TRUE WHERE no = ?").bind(msg.shelf_no).execute(&mut *db).await?;
    Ok(())
}
