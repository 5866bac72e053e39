use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Points;

impl Points {
    const KIND: &str = "points";

    #[idempotent(key = "Self::KIND + ':' + order_no", store = "db")]
    pub async fn credit(db: &mut SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE points SET balance = balance + 1").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}

fn main() {}
