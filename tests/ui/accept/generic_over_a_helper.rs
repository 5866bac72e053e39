//! Trap `scope`: generic over something that is no part of the key, so the default scope names one handler.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub trait Prices {
    fn of(&self, sku: &str) -> i64;
}

#[idempotent(key = order_no + ":" + sku, store = db, scope = "generic_over_a_helper.reserve")]
pub async fn reserve<P: Prices + Sync>(
    db: &mut SqliteConnection,
    prices: &P,
    order_no: &str,
    sku: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO reserved (order_no, sku, price) VALUES (?, ?, ?)")
        .bind(order_no)
        .bind(sku)
        .bind(prices.of(sku))
        .execute(&mut *db)
        .await?;
    Ok(())
}
