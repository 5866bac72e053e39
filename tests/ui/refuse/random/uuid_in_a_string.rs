use idem_runtime::idempotent;
use sqlx::MySqlConnection;
use uuid::Uuid;

pub struct OrderPlaced {
    pub shop: String,
    pub order_id: Uuid,
}

#[idempotent(key = "msg.shop + '/' + msg.order_id", store = "db")]
pub async fn on_order_placed(db: &mut MySqlConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PLACED' WHERE id = ?")
        .bind(msg.order_id.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
