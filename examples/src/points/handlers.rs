//! The handlers with idem. The flow table is the memory: no record of idem's own is written.

use super::{
    book::{PointsError, add, balance_of},
    message::{Move, Open},
};
use idem_runtime::idempotent;
use sqlx::SqliteConnection;

/// Points come or go. The row in the flow is the claim, and the balance moves in the same unit.
#[idempotent(
    guard = "INSERT INTO points_flow (account, biz_no, points) VALUES ({msg.account}, {msg.biz_no}, {msg.points})",
    unique = "account, biz_no",
    store = db,
    scope = "points.move",
    delivery = msg.offset,
)]
pub(crate) async fn move_points(db: &mut SqliteConnection, msg: &Move) -> Result<i64, PointsError> {
    add(db, &msg.account, msg.points).await
}

/// An account is opened. The account itself is the claim; the body says what is in it.
#[idempotent(
    guard = "INSERT INTO points_balance (account, points) VALUES ({msg.account}, 0)",
    unique = "account",
    store = db,
    scope = "points.open",
    delivery = msg.offset,
)]
pub(crate) async fn open(db: &mut SqliteConnection, msg: &Open) -> Result<i64, PointsError> {
    Ok(balance_of(db, &msg.account).await?.unwrap_or_default())
}
