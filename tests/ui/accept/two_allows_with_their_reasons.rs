//! Trap `allow`: two allows, each with its reason.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct BidMade {
    pub request_id: String,
    pub lot: Option<String>,
}

#[idempotent(
    key = msg.request_id + "@" + msg.lot,
    store = db,
    allow(random(msg.request_id), reason = "the bidder's device makes it once"),
    allow(null(msg.lot), reason = "a bid without a lot is for the whole sale"),
)]
pub async fn on_bid(db: &mut MySqlConnection, msg: &BidMade) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO bids (request) VALUES (?)").bind(&msg.request_id).execute(&mut *db).await?;
    Ok(())
}
