use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPlaced {
    pub user_no: u64,
    pub created_at: i64,
}

#[idempotent(key = msg.user_no + ":" + msg.created_at, store = db)]
pub async fn on_order_placed(db: &mut PgConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (created_at) VALUES ($1)").bind(msg.created_at).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
