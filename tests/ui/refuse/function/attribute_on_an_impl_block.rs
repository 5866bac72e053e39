use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Orders;

#[idempotent(key = order_no, store = db)]
impl Orders {
    pub async fn paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}

fn main() {}
