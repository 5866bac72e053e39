//! Trap `repeat`: the same field of two different structs.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Party {
    pub no: String,
}

pub struct Deal {
    pub buyer: Party,
    pub seller: Party,
    pub contract: i64,
}

#[idempotent(key = msg.buyer.no + ">" + msg.seller.no + "#" + msg.contract, store = db)]
pub async fn on_deal(db: &mut PgConnection, msg: &Deal) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE deals SET done = TRUE WHERE no = $1").bind(msg.contract).execute(&mut *db).await?;
    Ok(())
}
