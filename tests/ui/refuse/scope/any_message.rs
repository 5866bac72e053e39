use idem_runtime::idempotent;
use sqlx::PgConnection;

pub trait Event {
    fn order_no(&self) -> &str;
}

#[idempotent(key = event.order_no(), store = db)]
pub async fn project(db: &mut PgConnection, event: &(impl Event + Sync)) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO projected (order_no) VALUES ($1)").bind(event.order_no()).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
