//! The handlers with idem.

use super::{
    message::{Deduct, GiveBack, Receive},
    warehouse::{Left, StockError, put, put_back, take},
};
use idem_runtime::idempotent;
use sqlx::SqliteConnection;

/// An order line takes from the stock. The line is in the key: two sizes in one order are two facts. The quantity is the
/// payload: the same line with another quantity is refused, and never taken for a repeat.
#[idempotent(
    key = msg.order_no + ":" + msg.line_no,
    payload = msg.sku + ":" + msg.quantity,
    store = db,
    scope = "stock.deduct",
    delivery = msg.offset,
)]
pub(crate) async fn deduct(db: &mut SqliteConnection, msg: &Deduct) -> Result<Left, StockError> {
    take(db, msg).await
}

/// A return is a fact of its own, with a number of its own. It does not undo the record of the deduction.
#[idempotent(key = msg.return_no, store = db, scope = "stock.return", delivery = msg.offset)]
pub(crate) async fn give_back(db: &mut SqliteConnection, msg: &GiveBack) -> Result<Left, StockError> {
    put_back(db, msg).await
}

/// New goods.
#[idempotent(key = msg.receipt_no, store = db, scope = "stock.receive", delivery = msg.offset)]
pub(crate) async fn receive(db: &mut SqliteConnection, msg: &Receive) -> Result<Left, StockError> {
    put(db, &msg.sku, msg.quantity, &msg.receipt_no).await
}

/// WRONG, to show what a key that is too short does: all lines of an order are one fact to it.
#[idempotent(key = msg.order_no, store = db, scope = "stock.deduct-by-order", delivery = msg.offset)]
pub(crate) async fn deduct_by_order(db: &mut SqliteConnection, msg: &Deduct) -> Result<Left, StockError> {
    take(db, msg).await
}
