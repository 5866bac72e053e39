use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, retry = 3)]
pub async fn on_order_paid(db: &mut PgConnection, order_no: &str, lines: Vec<String>) -> Result<(), sqlx::Error> {
    for line in lines {
        sqlx::query("INSERT INTO lines (no, line) VALUES ($1, $2)").bind(order_no).bind(line).execute(&mut *db).await?;
    }
    Ok(())
}

fn main() {}
