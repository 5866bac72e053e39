use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_text(db: &mut PgConnection, text: &str) -> Result<(), sqlx::Error> {
    let order_no = text.trim_start_matches("PAID ");
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
