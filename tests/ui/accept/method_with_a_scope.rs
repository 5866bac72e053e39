//! Trap `scope`: two methods of one name in one module, told apart by their scopes.

use idem_runtime::{PgStore, idempotent};
use sqlx::PgConnection;

pub struct Alipay {
    pub store: PgStore,
}

pub struct WeChat {
    pub store: PgStore,
}

impl Alipay {
    #[idempotent(key = order_no, store = self.store, tx = db, scope = "alipay.on_paid")]
    pub async fn on_paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET paid = TRUE WHERE order_no = $1").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}

impl WeChat {
    #[idempotent(key = order_no, store = self.store, tx = db, scope = "wechat.on_paid")]
    pub async fn on_paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET paid = TRUE WHERE order_no = $1").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}
