//! Trap `function`: a method of an async_trait that calls an idempotent one.

use async_trait::async_trait;
use idem_runtime::{Handled, MySqlStore, idempotent};
use sqlx::MySqlConnection;

#[async_trait]
pub trait Orders {
    async fn paid(&self, store: &MySqlStore, order_no: &str) -> Handled<Result<(), sqlx::Error>>;
}

pub struct Shop;

impl Shop {
    #[idempotent(key = order_no, store = db, scope = "called_from_an_async_trait.pay_once")]
    async fn pay_once(&self, db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}

#[async_trait]
impl Orders for Shop {
    async fn paid(&self, store: &MySqlStore, order_no: &str) -> Handled<Result<(), sqlx::Error>> {
        self.pay_once(store, order_no).await
    }
}
