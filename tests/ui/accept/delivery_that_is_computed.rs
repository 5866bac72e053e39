//! Trap `argument`: a delivery that is computed from several broker ids.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Record {
    pub topic: &'static str,
    pub partition: i32,
    pub offset: i64,
    pub order_no: String,
}

#[idempotent(
    key = rec.order_no,
    store = db,
    delivery = format_args!("{}-{}@{}", rec.topic, rec.partition, rec.offset),
)]
pub async fn on_record(db: &mut SqliteConnection, rec: &Record) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = ?").bind(&rec.order_no).execute(&mut *db).await?;
    Ok(())
}
