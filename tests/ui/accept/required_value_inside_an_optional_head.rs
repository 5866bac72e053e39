//! Trap `required`: a value inside an optional head, behind an accessor.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Head {
    pub order_no: String,
}

pub struct Message {
    pub head: Option<Head>,
}

impl Message {
    pub fn order_no(&self) -> Option<&String> {
        self.head.as_ref().map(|head| &head.order_no)
    }
}

#[idempotent(key = msg.order_no()?, store = db)]
pub async fn on_message(db: &mut PgConnection, msg: &Message) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(msg.order_no()).execute(&mut *db).await?;
    Ok(())
}
