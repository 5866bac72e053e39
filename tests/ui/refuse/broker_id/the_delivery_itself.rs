use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Notification {
    pub id: String,
    pub order_no: String,
}

#[idempotent(key = msg.order_no + ":" + msg.id, store = db, delivery = msg.id)]
pub async fn on_notification(db: &mut SqliteConnection, msg: &Notification) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET paid = 1 WHERE order_no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
