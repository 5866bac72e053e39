use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, order_no: &str) -> Result<Option<String>, sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    let last = sqlx::query_scalar::<_, String>("COMMIT AND CHAIN").fetch_optional(&mut *db).await?;
    Ok(last)
}

fn main() {}
