//! The stock and its journal. Nothing in here recognises a repeat.

use super::message::{Deduct, GiveBack};
use sqlx::SqliteConnection;
use std::fmt;

/// The business tables.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE stock (
        sku   TEXT NOT NULL PRIMARY KEY,
        count INTEGER NOT NULL CHECK (count >= 0)
    ) STRICT;
    CREATE TABLE stock_flow (
        id     INTEGER PRIMARY KEY,
        sku    TEXT NOT NULL,
        change INTEGER NOT NULL,
        cause  TEXT NOT NULL
    ) STRICT;
";

/// What is left of an article.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left(i64);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} left", self.0)
    }
}

/// Why nothing was taken or put back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StockError {
    /// Too little is there. A delivery may bring more.
    #[error("out of stock")]
    OutOfStock,
    /// No such article.
    #[error("there is no article {0}")]
    Unknown(String),
    /// More comes back than the line took.
    #[error("the line did not take that much")]
    NotTaken,
    /// The database refused a statement.
    #[error("the stock refused a statement: {0}")]
    Database(#[from] sqlx::Error),
}

/// Takes what an order line wants, and writes it into the flow. The condition is in the UPDATE: nothing can come between.
pub(crate) async fn take(db: &mut SqliteConnection, msg: &Deduct) -> Result<Left, StockError> {
    let left = sqlx::query_scalar("UPDATE stock SET count = count - ?1 WHERE sku = ?2 AND count >= ?1 RETURNING count")
        .bind(msg.quantity)
        .bind(&msg.sku)
        .fetch_optional(&mut *db)
        .await?
        .ok_or(StockError::OutOfStock)?;
    sqlx::query("INSERT INTO stock_flow (sku, change, cause) VALUES (?, ?, ?)")
        .bind(&msg.sku)
        .bind(-msg.quantity)
        .bind(format!("{}:{}", msg.order_no, msg.line_no))
        .execute(&mut *db)
        .await?;
    Ok(Left(left))
}

/// Puts back what an order line took, and no more than it has.
pub(crate) async fn put_back(db: &mut SqliteConnection, msg: &GiveBack) -> Result<Left, StockError> {
    let line = format!("{}:{}", msg.order_no, msg.line_no);
    let taken: i64 = sqlx::query_scalar("SELECT COALESCE(-SUM(change), 0) FROM stock_flow WHERE sku = ? AND cause = ?")
        .bind(&msg.sku)
        .bind(&line)
        .fetch_one(&mut *db)
        .await?;
    if msg.quantity > taken {
        return Err(StockError::NotTaken);
    }
    put(db, &msg.sku, msg.quantity, &line).await
}

/// Puts goods in, for this cause.
pub(crate) async fn put(db: &mut SqliteConnection, sku: &str, quantity: i64, cause: &str) -> Result<Left, StockError> {
    let left = sqlx::query_scalar("UPDATE stock SET count = count + ? WHERE sku = ? RETURNING count")
        .bind(quantity)
        .bind(sku)
        .fetch_optional(&mut *db)
        .await?
        .ok_or_else(|| StockError::Unknown(sku.into()))?;
    sqlx::query("INSERT INTO stock_flow (sku, change, cause) VALUES (?, ?, ?)")
        .bind(sku)
        .bind(quantity)
        .bind(cause)
        .execute(&mut *db)
        .await?;
    Ok(Left(left))
}
