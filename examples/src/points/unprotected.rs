//! The handlers without idem: each statement on its own, and the balance read first and written back later.

use super::{
    book::{PointsError, balance_of},
    message::{Move, Open},
};
use sqlx::SqlitePool;
use tokio::sync::Barrier;

/// Points come or go. `meet` is where deliveries at the same moment all have read and none has written.
pub(crate) async fn move_points(db: &SqlitePool, msg: &Move, meet: &Barrier) -> Result<i64, PointsError> {
    sqlx::query("INSERT INTO points_flow (account, biz_no, points) VALUES (?, ?, ?)")
        .bind(&msg.account)
        .bind(&msg.biz_no)
        .bind(msg.points)
        .execute(db)
        .await?;
    let balance = balance_of(&mut *db.acquire().await?, &msg.account).await?;
    meet.wait().await;
    let balance = balance.ok_or_else(|| PointsError::NoAccount(msg.account.clone()))? + msg.points;
    if balance < 0 {
        return Err(PointsError::NotEnough);
    }
    sqlx::query("UPDATE points_balance SET points = ? WHERE account = ?")
        .bind(balance)
        .bind(&msg.account)
        .execute(db)
        .await?;
    Ok(balance)
}

/// An account is opened, unless it is there.
pub(crate) async fn open(db: &SqlitePool, msg: &Open) -> Result<i64, PointsError> {
    sqlx::query("INSERT OR IGNORE INTO points_balance (account, points) VALUES (?, 0)")
        .bind(&msg.account)
        .execute(db)
        .await?;
    Ok(0)
}
