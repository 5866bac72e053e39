//! Trap `transaction`: an event named BEGIN that is bound as a value.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = "order_no", store = "db")]
pub async fn on_order(db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    let event = ["BEGIN", "END"][usize::from(order_no.is_empty())];
    sqlx::query("INSERT INTO events (name) VALUES ($1)").bind(event).execute(&mut *db).await?;
    sqlx::query("INSERT INTO events (name) VALUES ('BEGIN')").execute(&mut *db).await?;
    Ok(())
}
