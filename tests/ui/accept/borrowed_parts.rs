//! Trap `grammar`: parts with a reference in front of them.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Swapped {
    pub give: String,
    pub take: String,
    pub swap_no: i64,
}

#[idempotent(key = &msg.give + "<>" + &msg.take + "#" + &msg.swap_no, store = db)]
pub async fn on_swap(db: &mut MySqlConnection, msg: &Swapped) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE swaps SET done = TRUE WHERE no = ?").bind(msg.swap_no).execute(&mut *db).await?;
    Ok(())
}
