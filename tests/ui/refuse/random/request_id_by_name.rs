use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Checkout {
    pub request_id: String,
}

#[idempotent(key = msg.request_id, store = db)]
pub async fn on_checkout(db: &mut PgConnection, msg: &Checkout) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (request) VALUES ($1)").bind(&msg.request_id).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
