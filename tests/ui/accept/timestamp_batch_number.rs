//! Trap `time`: a batch number with the word timestamp in its name.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct BatchClosed {
    pub timestamp_batch_no: String,
}

#[idempotent(key = msg.timestamp_batch_no, store = db)]
pub async fn on_batch(db: &mut PgConnection, msg: &BatchClosed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE batches SET closed = TRUE WHERE no = $1")
        .bind(&msg.timestamp_batch_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
