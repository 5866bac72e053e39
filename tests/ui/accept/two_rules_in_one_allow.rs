//! Trap `allow`: two rules in one allow.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct BidMade {
    pub request_id: String,
    pub created_at: i64,
}

#[idempotent(
    key = msg.request_id + "@" + msg.created_at,
    store = db,
    allow(random(msg.request_id), time(msg.created_at), reason = "both are stored with the bid when it is made"),
)]
pub async fn on_bid(db: &mut PgConnection, msg: &BidMade) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO bids (request) VALUES ($1)").bind(&msg.request_id).execute(&mut *db).await?;
    Ok(())
}
