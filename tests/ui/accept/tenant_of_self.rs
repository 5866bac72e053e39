//! Trap `root`: a part that starts at self.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Shop {
    pub tenant: String,
}

impl Shop {
    #[idempotent(key = self.tenant + ":" + order_no, store = db, scope = "tenant_of_self.on_order")]
    pub async fn on_order(&self, db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE orders SET status = 'SEEN' WHERE no = ?").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }
}
