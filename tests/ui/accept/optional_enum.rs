//! Trap `null`: an optional channel that callbacks always carry.

use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;

#[derive(KeyPart)]
pub enum Channel {
    Card,
    Wallet,
}

pub struct Paid {
    pub order_no: String,
    pub channel: Option<Channel>,
}

#[idempotent(key = msg.order_no + ":" + msg.channel?, store = db)]
pub async fn on_paid(db: &mut PgConnection, msg: &Paid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
