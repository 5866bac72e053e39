//! The message, and the handler: as people write it first, with a check, and with idem.

use idem_runtime::idempotent;
use serde::{Deserialize, Serialize};
use sqlx::{SqliteConnection, SqlitePool};
use tokio::sync::Barrier;

/// The business tables.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE accounts (
        name  TEXT PRIMARY KEY,
        cents INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE deductions (
        order_no TEXT NOT NULL,
        account  TEXT NOT NULL,
        cents    INTEGER NOT NULL
    ) STRICT;
";

/// Take the price of an order from an account.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Deduct {
    pub(crate) order_no: String,
    pub(crate) account: String,
    pub(crate) cents: i64,
}

/// Why nothing was deducted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeductError {
    /// There is no such account.
    #[error("no account {0}")]
    NoAccount(String),
    /// The database refused a statement.
    #[error("the books refused a statement: {0}")]
    Database(#[from] sqlx::Error),
}

/// The handler with idem.
#[idempotent(key = msg.order_no, store = db, scope = "account.deduct")]
pub(crate) async fn on_deduct(db: &mut SqliteConnection, msg: &Deduct) -> Result<(), DeductError> {
    take(db, msg).await
}

/// As it is written first: one transaction, and the consumer acks when it is committed.
pub(crate) async fn on_deduct_trusting(books: &SqlitePool, msg: &Deduct) -> Result<(), DeductError> {
    let mut tx = books.begin_with("BEGIN IMMEDIATE").await?;
    take(&mut tx, msg).await?;
    Ok(tx.commit().await?)
}

/// As it is written after the first incident: look whether the order is there, then take the money. `moment` stands for the
/// time between the two; here both deliveries have looked before one of them goes on.
pub(crate) async fn on_deduct_checking(books: &SqlitePool, msg: &Deduct, moment: &Barrier) -> Result<(), DeductError> {
    let seen: Option<i64> = sqlx::query_scalar("SELECT cents FROM deductions WHERE order_no = ?")
        .bind(&msg.order_no)
        .fetch_optional(books)
        .await?;
    moment.wait().await;
    if seen.is_some() {
        return Ok(());
    }
    on_deduct_trusting(books, msg).await
}

/// Takes the money. Nothing in here recognises a repeat.
async fn take(db: &mut SqliteConnection, msg: &Deduct) -> Result<(), DeductError> {
    let update = sqlx::query("UPDATE accounts SET cents = cents - ? WHERE name = ?").bind(msg.cents).bind(&msg.account);
    if update.execute(&mut *db).await?.rows_affected() == 0 {
        return Err(DeductError::NoAccount(msg.account.clone()));
    }
    sqlx::query("INSERT INTO deductions (order_no, account, cents) VALUES (?, ?, ?)")
        .bind(&msg.order_no)
        .bind(&msg.account)
        .bind(msg.cents)
        .execute(&mut *db)
        .await?;
    Ok(())
}
