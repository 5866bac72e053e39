//! Coupons that accounts are granted: the handler with idem, and the body.

use idem_runtime::idempotent;
use serde::Deserialize;
use sqlx::SqliteConnection;

/// The business table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE accounts (
        account TEXT NOT NULL PRIMARY KEY,
        coupons INTEGER NOT NULL DEFAULT 0,
        cents   INTEGER NOT NULL DEFAULT 0
    ) STRICT;
";

/// A message of the coupon topic.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Grant {
    pub(crate) offset: u64,
    pub(crate) coupon_no: String,
    pub(crate) account: String,
    pub(crate) cents: i64,
}

/// Why no coupon was granted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CouponError {
    /// No such account, or not yet.
    #[error("there is no account {0}")]
    NoAccount(String),
    /// The database refused a statement.
    #[error("the accounts refused a statement: {0}")]
    Database(#[from] sqlx::Error),
}

/// The name of the handler in every record, and in the gates.
pub(crate) const SCOPE: &str = "coupon.grant";

/// The handler with idem. It does not know of gates: those belong to the store.
#[idempotent(key = msg.coupon_no, store = db, scope = "coupon.grant", delivery = msg.offset)]
pub(crate) async fn grant(db: &mut SqliteConnection, msg: &Grant) -> Result<i64, CouponError> {
    add(db, msg).await
}

/// Adds a coupon to its account. Nothing in here recognises a repeat.
pub(crate) async fn add(db: &mut SqliteConnection, msg: &Grant) -> Result<i64, CouponError> {
    sqlx::query_scalar("UPDATE accounts SET coupons = coupons + 1, cents = cents + ? WHERE account = ? RETURNING cents")
        .bind(msg.cents)
        .bind(&msg.account)
        .fetch_optional(&mut *db)
        .await?
        .ok_or_else(|| CouponError::NoAccount(msg.account.clone()))
}
