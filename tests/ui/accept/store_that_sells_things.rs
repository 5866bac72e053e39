//! Trap `pool`: a store that sells things.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Store {
    pub city: String,
}

#[idempotent(key = store.city + "#" + receipt_no, store = db)]
pub async fn on_receipt(db: &mut MySqlConnection, store: &Store, receipt_no: i64) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO receipts (city) VALUES (?)").bind(&store.city).execute(&mut *db).await?;
    Ok(())
}
