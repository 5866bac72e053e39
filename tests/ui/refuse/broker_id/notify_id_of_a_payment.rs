use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct PaymentCallback {
    pub notify_id: String,
}

#[idempotent(key = "msg.notify_id", store = "db")]
pub async fn on_payment(db: &mut SqliteConnection, msg: &PaymentCallback) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO seen (id) VALUES (?)").bind(&msg.notify_id).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
