use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Head {
    pub order_no: Option<String>,
}

pub struct Shipped {
    pub head: Head,
    pub parcel_no: String,
}

#[idempotent(key = msg.head.order_no, store = db)]
pub async fn on_shipped(db: &mut SqliteConnection, msg: &Shipped) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'SHIPPED' WHERE no = ?").bind(&msg.head.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
