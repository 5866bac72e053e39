use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Checkout {
    pub cart_no: u64,
    pub trace_id: String,
}

#[idempotent(key = "msg.cart_no + ':' + msg.trace_id", store = "db")]
pub async fn on_checkout(db: &mut MySqlConnection, msg: &Checkout) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (trace) VALUES (?)").bind(&msg.trace_id).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
