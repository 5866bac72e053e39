//! Trap `time`: a creation time that is fixed when the offer is made and sent again unchanged.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OfferMade {
    pub seller: String,
    pub created_at: i64,
}

#[idempotent(
    key = msg.seller + "@" + msg.created_at,
    store = db,
    allow(time(msg.created_at), reason = "a seller makes one offer a second at most, and the time is stored with it"),
)]
pub async fn on_offer(db: &mut PgConnection, msg: &OfferMade) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO offers (created_at) VALUES ($1)").bind(msg.created_at).execute(&mut *db).await?;
    Ok(())
}
