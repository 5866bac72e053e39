use idem_runtime::{SqliteStore, idempotent};
use sqlx::SqliteConnection;

#[idempotent(key = no, store = db)]
pub async fn on_points(db: &mut SqliteConnection, no: u64) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE members SET points = points + 1").bind(no.to_string()).execute(&mut *db).await?;
    Ok(())
}

#[idempotent(key = order_no, store = db)]
pub async fn on_order_paid(db: &mut SqliteConnection, points: &SqliteStore, order_no: u64) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID'").execute(&mut *db).await?;
    let _ = on_points(points, order_no).await;
    Ok(())
}

fn main() {}
