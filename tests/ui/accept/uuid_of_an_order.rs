//! Trap `random`: an order id of type Uuid that the shop stores with the order.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;
use uuid::Uuid;

pub struct OrderPlaced {
    pub shop: String,
    pub order_id: Uuid,
}

#[idempotent(
    key = "msg.shop + '/' + msg.order_id",
    store = "db",
    allow(random(msg.order_id), reason = "the shop makes it once, when the order is placed"),
)]
pub async fn on_order_placed(db: &mut SqliteConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PLACED' WHERE id = ?")
        .bind(msg.order_id.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}
