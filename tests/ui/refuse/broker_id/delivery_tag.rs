use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Delivery {
    pub queue: String,
    pub delivery_tag: u64,
}

#[idempotent(key = msg.queue + ":" + msg.delivery_tag, store = db)]
pub async fn on_delivery(db: &mut SqliteConnection, msg: &Delivery) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO seen (queue) VALUES (?)").bind(&msg.queue).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
