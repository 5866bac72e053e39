use async_trait::async_trait;
use idem_runtime::idempotent;
use sqlx::PgConnection;

#[async_trait]
pub trait Orders {
    async fn paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error>;
}

pub struct Shop;

#[async_trait]
impl Orders for Shop {
    #[idempotent(key = order_no, store = db)]
    async fn paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}

fn main() {}
