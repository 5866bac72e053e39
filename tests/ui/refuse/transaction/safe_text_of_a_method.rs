use idem_runtime::{PgStore, idempotent};
use sqlx::{AssertSqlSafe, PgConnection};

pub struct Orders {
    pub store: PgStore,
}

impl Orders {
    #[idempotent(key = order_no, store = self.store, tx = conn)]
    pub async fn paid(&self, conn: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query(AssertSqlSafe("ABORT")).execute(&mut *conn).await?;
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *conn).await?;
        Ok(())
    }
}

fn main() {}
