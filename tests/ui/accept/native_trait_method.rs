//! Trap `function`: an async method of a trait, declared with what callers pass.

use idem_runtime::{Handled, PgStore, idempotent};
use sqlx::PgConnection;

pub trait Orders {
    fn paid(&self, db: &PgStore, order_no: &str) -> impl Future<Output = Handled<Result<(), sqlx::Error>>> + Send;
}

pub struct Shop;

impl Orders for Shop {
    #[idempotent(key = order_no, store = db, scope = "native_trait_method.paid")]
    async fn paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}
