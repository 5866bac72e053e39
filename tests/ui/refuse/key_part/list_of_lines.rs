use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct OrderPlaced {
    pub lines: Vec<String>,
}

#[idempotent(key = msg.lines, store = db)]
pub async fn on_order_placed(db: &mut PgConnection, msg: &OrderPlaced) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (lines) VALUES ($1)").bind(msg.lines.join(",")).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
