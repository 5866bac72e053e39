use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct QueueItem {
    pub receipt_handle: String,
}

#[idempotent(key = msg.receipt_handle, store = db)]
pub async fn on_queue_item(db: &mut PgConnection, msg: &QueueItem) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO items (handle) VALUES ($1)").bind(&msg.receipt_handle).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
