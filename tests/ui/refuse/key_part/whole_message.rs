use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct OrderPlaced {
    pub order_no: String,
}

#[idempotent(key = msg, store = db)]
pub async fn on_order_placed(db: &mut MySqlConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
