//! Trap `float`: a newtype over an amount in the smallest unit.

use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;

#[derive(KeyPart)]
pub struct Cents(pub i64);

pub struct TipGiven {
    pub bill_no: i64,
    pub tip: Cents,
}

#[idempotent(key = msg.bill_no + "+" + msg.tip, store = db)]
pub async fn on_tip(db: &mut PgConnection, msg: &TipGiven) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE bills SET tipped = TRUE WHERE no = $1").bind(msg.bill_no).execute(&mut *db).await?;
    Ok(())
}
