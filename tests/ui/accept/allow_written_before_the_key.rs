//! Trap `allow`: an allow in front of the key.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct BidMade {
    pub nonce: String,
}

#[idempotent(key = msg.nonce, store = db, allow(random(msg.nonce), reason = "it is the number of a printed ticket"))]
pub async fn on_bid(db: &mut PgConnection, msg: &BidMade) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO bids (nonce) VALUES ($1)").bind(&msg.nonce).execute(&mut *db).await?;
    Ok(())
}
