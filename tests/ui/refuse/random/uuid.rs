use idem_runtime::idempotent;
use sqlx::PgConnection;
use uuid::Uuid;

pub struct OrderPlaced {
    pub order_id: Uuid,
}

#[idempotent(key = msg.order_id, store = db)]
pub async fn on_order_placed(db: &mut PgConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PLACED' WHERE id = $1")
        .bind(msg.order_id.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
