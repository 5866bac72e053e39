//! Trap `allow`: two rules for one part.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;
use uuid::Uuid;

pub struct BidMade {
    pub sale: i64,
    pub form: Option<Uuid>,
}

#[idempotent(
    key = "msg.sale + '/' + msg.form",
    store = "db",
    allow(
        null("msg.form"),
        random("msg.form"),
        reason = "paper bids carry the id of their form, phone bids carry none"
    )
)]
pub async fn on_bid(db: &mut SqliteConnection, msg: &BidMade) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE sales SET bids = bids + 1 WHERE no = ?").bind(msg.sale).execute(&mut *db).await?;
    Ok(())
}
