use idem_runtime::{KeyPart, idempotent};
use sqlx::SqliteConnection;
use uuid::Uuid;

#[derive(KeyPart)]
pub struct OrderId(pub Uuid);

pub struct OrderPlaced {
    pub order: OrderId,
}

#[idempotent(key = msg.order, store = db)]
pub async fn on_order_placed(db: &mut SqliteConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PLACED' WHERE id = ?")
        .bind(msg.order.0.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
