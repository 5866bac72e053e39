use idem_runtime::{Outcome, SqliteStore, idempotent};
use sqlx::SqliteConnection;

pub struct OrderPaid {
    pub order_no: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub fn on_order_paid(db: &mut SqliteConnection, msg: &OrderPaid) -> Result<u64, sqlx::Error> {
    let done =
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(done.rows_affected())
}

pub async fn deliver(store: &SqliteStore, msg: &OrderPaid) {
    match on_order_paid(store, msg).await {
        Ok(Outcome::First(rows)) => println!("{rows} rows"),
        Ok(_) => println!("again"),
        Err(error) => println!("{error}"),
    }
}

fn main() {}
