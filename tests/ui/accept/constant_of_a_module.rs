//! Trap `constant`: a constant of another module.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub mod currency {
    pub const CNY: &str = "CNY";
}

#[idempotent(key = "account_no + '/' + currency::CNY + '/' + cents", store = "db")]
pub async fn open_account(db: &mut SqliteConnection, account_no: &str, cents: i64) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO accounts (no, cents) VALUES (?, ?)")
        .bind(account_no)
        .bind(cents)
        .execute(&mut *db)
        .await?;
    Ok(())
}
