use idem_runtime::{PgStore, idempotent};
use sqlx::PgConnection;

pub struct Orders {
    pub store: PgStore,
}

impl Orders {
    #[idempotent(key = order_no, store = self.store, tx = tx)]
    pub async fn paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}

fn main() {}
