use idem_runtime::idempotent;
use sqlx::PgConnection;

#[derive(Debug)]
pub enum Status {
    Paid,
    Closed,
}

pub struct StatusChanged {
    pub order_no: String,
    pub status: Status,
}

#[idempotent(key = msg.order_no + ":" + msg.status, store = db)]
pub async fn on_status(db: &mut PgConnection, msg: &StatusChanged) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = $1").bind(format!("{:?}", msg.status)).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
