use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPlaced {
    pub order_no: String,
}

#[idempotent(key = uuid::Uuid::new_v4(), store = db)]
pub async fn on_order_placed(db: &mut PgConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PLACED' WHERE no = $1").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
