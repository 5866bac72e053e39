//! The balances, the flow behind them, and the nightly check that they agree.

use sqlx::SqliteConnection;

/// The business tables. The primary key of the flow is what recognises a repeat.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE points_balance (
        account TEXT NOT NULL PRIMARY KEY,
        points  INTEGER NOT NULL CHECK (points >= 0)
    ) STRICT;
    CREATE TABLE points_flow (
        account TEXT NOT NULL,
        biz_no  TEXT NOT NULL,
        points  INTEGER NOT NULL,
        PRIMARY KEY (account, biz_no)
    ) STRICT;
";

/// The same without a unique index on the flow, as it is found in the wild.
pub(crate) const SCHEMA_WITHOUT_INDEX: &str = "
    CREATE TABLE points_balance (account TEXT NOT NULL PRIMARY KEY, points INTEGER NOT NULL CHECK (points >= 0)) STRICT;
    CREATE TABLE points_flow (account TEXT NOT NULL, biz_no TEXT NOT NULL, points INTEGER NOT NULL) STRICT;
";

/// Why no points moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PointsError {
    /// No such account, or not yet.
    #[error("there is no account {0}")]
    NoAccount(String),
    /// The balance would fall below zero.
    #[error("not enough points")]
    NotEnough,
    /// The database refused a statement.
    #[error("the points refused a statement: {0}")]
    Database(#[from] sqlx::Error),
}

/// Adds to a balance, relative to whatever it is: additions commute, so it does not matter in which order they come.
pub(crate) async fn add(db: &mut SqliteConnection, account: &str, points: i64) -> Result<i64, PointsError> {
    let balance = sqlx::query_scalar(
        "UPDATE points_balance SET points = points + ?1 WHERE account = ?2 AND points + ?1 >= 0 RETURNING points",
    )
    .bind(points)
    .bind(account)
    .fetch_optional(&mut *db)
    .await?;
    match balance {
        Some(balance) => Ok(balance),
        None => Err(balance_of(db, account)
            .await?
            .map_or(PointsError::NoAccount(account.into()), |_| PointsError::NotEnough)),
    }
}

/// The balance, if there is such an account.
pub(crate) async fn balance_of(db: &mut SqliteConnection, account: &str) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("SELECT points FROM points_balance WHERE account = ?")
        .bind(account)
        .fetch_optional(&mut *db)
        .await
}

/// The nightly check: accounts whose balance is not the sum of their flow, and flow of accounts that do not exist.
pub(crate) async fn disagreements(db: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT account || ': balance ' || COALESCE(balance, 'missing') || ', flow ' || flow
         FROM (SELECT account, SUM(balance) AS balance, SUM(flow) AS flow
               FROM (SELECT account, points AS balance, 0 AS flow FROM points_balance
                     UNION ALL SELECT account, NULL, points FROM points_flow)
               GROUP BY account)
         WHERE balance IS NOT flow
         ORDER BY account",
    )
    .fetch_all(&mut *db)
    .await
}
