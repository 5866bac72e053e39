//! The handler without idem: each event is applied as it comes.

use super::{
    event::{Event, Kind},
    handlers::EventError,
};
use sqlx::SqlitePool;

/// Applies an event.
pub(crate) async fn apply(db: &SqlitePool, event: &Event) -> Result<String, EventError> {
    let status = match &event.kind {
        Kind::Created => {
            sqlx::query("INSERT OR IGNORE INTO orders (order_no, status) VALUES (?, 'NEW')")
                .bind(&event.order_no)
                .execute(db)
                .await?;
            return Ok("NEW".into());
        }
        Kind::Address { version, address } => {
            sqlx::query("UPDATE orders SET address = ?, address_version = ? WHERE order_no = ?")
                .bind(address)
                .bind(version)
                .bind(&event.order_no)
                .execute(db)
                .await?;
            return Ok(address.clone());
        }
        Kind::WaitPay => "WAIT_PAY",
        Kind::Paid => "PAID",
    };
    let set = sqlx::query("UPDATE orders SET status = ? WHERE order_no = ?").bind(status).bind(&event.order_no);
    // No row is no error, and the broker is told that all is well.
    Ok(if set.execute(db).await?.rows_affected() == 0 { "(no row)".into() } else { status.into() })
}
