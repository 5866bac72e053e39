//! Trap `derive`: an enum whose renamed variants keep their texts.

use idem_runtime::{KeyPart, idempotent};
use sqlx::MySqlConnection;

#[derive(Clone, Copy, KeyPart)]
pub enum Status {
    #[key_part(text = "WAIT_PAY")]
    AwaitingPayment,
    #[key_part(text = "PAID")]
    Paid,
    r#Final,
}

pub struct StatusChanged {
    pub order_no: String,
    pub status: Status,
}

#[idempotent(key = msg.order_no + ":" + msg.status, store = db)]
pub async fn on_status(db: &mut MySqlConnection, msg: &StatusChanged) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET changed = TRUE WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
