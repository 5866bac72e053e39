//! Trap `broker_id`: a tag number of a consumer, who is a person.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct CardSwiped {
    pub consumer_tag_no: String,
    pub visit_no: i64,
}

#[idempotent(key = msg.consumer_tag_no + "/" + msg.visit_no, store = db)]
pub async fn on_card_swiped(db: &mut SqliteConnection, msg: &CardSwiped) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE cards SET visits = visits + 1 WHERE no = ?")
        .bind(&msg.consumer_tag_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
