//! The handlers with idem: one claim for each way in which events can come out of order.

use idem_runtime::{Decision, idempotent};
use sqlx::SqliteConnection;

/// The business table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE orders (
        order_no        TEXT NOT NULL PRIMARY KEY,
        status          TEXT NOT NULL,
        address         TEXT NOT NULL DEFAULT '',
        address_version INTEGER NOT NULL DEFAULT 0
    ) STRICT;
";

/// Why an event could not be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    /// Somebody else changed the order in a way that this handler does not know.
    #[error("the order is {0}")]
    Unexpected(String),
    /// The database refused a statement.
    #[error("the orders refused a statement: {0}")]
    Database(#[from] sqlx::Error),
}

/// The order was placed.
#[idempotent(key = order_no, store = db, scope = "order.created", delivery = offset)]
pub(crate) async fn on_created(db: &mut SqliteConnection, order_no: &str, offset: u64) -> Result<String, EventError> {
    sqlx::query("INSERT INTO orders (order_no, status) VALUES (?, 'NEW')").bind(order_no).execute(&mut *db).await?;
    Ok("NEW".into())
}

/// The money is there. When the order is not, the body declines: the claim goes back, and the broker is asked for
/// another delivery.
#[idempotent(key = order_no, store = db, scope = "order.paid", delivery = offset, declines)]
pub(crate) async fn on_paid(
    db: &mut SqliteConnection,
    order_no: &str,
    offset: u64,
) -> Result<Decision<String>, EventError> {
    let paid = sqlx::query("UPDATE orders SET status = 'PAID' WHERE order_no = ? AND status IN ('NEW', 'WAIT_PAY')")
        .bind(order_no)
        .execute(&mut *db)
        .await?;
    if paid.rows_affected() == 1 {
        return Ok(Decision::Done("PAID".into()));
    }
    let status: Option<String> = sqlx::query_scalar("SELECT status FROM orders WHERE order_no = ?")
        .bind(order_no)
        .fetch_optional(&mut *db)
        .await?;
    match status {
        None => Ok(Decision::retry("the order is not here yet")),
        Some(status) => Err(EventError::Unexpected(status)),
    }
}

/// The payment page was opened. Only a new order goes there: from any other state the guard matches nothing.
#[idempotent(
    guard = "UPDATE orders SET status = 'WAIT_PAY' WHERE order_no = {order_no} AND status = 'NEW'",
    store = db,
    scope = "order.wait-pay",
    delivery = offset,
)]
pub(crate) async fn on_wait_pay(db: &mut SqliteConnection, order_no: &str, offset: u64) -> Result<String, EventError> {
    let status = sqlx::query_scalar("SELECT status FROM orders WHERE order_no = ?").bind(order_no);
    Ok(status.fetch_one(&mut *db).await?)
}

/// The address changed. The key says "seen before?", the guard says "newer than what is there?".
#[idempotent(
    key = order_no + ":v" + version,
    guard = "UPDATE orders SET address = {address}, address_version = {version}
             WHERE order_no = {order_no} AND address_version < {version}",
    store = db,
    scope = "order.address",
    delivery = offset,
)]
pub(crate) async fn on_address(
    db: &mut SqliteConnection,
    order_no: &str,
    version: i64,
    address: &str,
    offset: u64,
) -> Result<String, EventError> {
    let address = sqlx::query_scalar("SELECT address FROM orders WHERE order_no = ?").bind(order_no);
    Ok(address.fetch_one(&mut *db).await?)
}
