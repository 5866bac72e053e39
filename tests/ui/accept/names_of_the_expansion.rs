//! Trap `root`: parameters named like variables of the generated code.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = key + "/" + unit + "/" + result, store = store)]
pub async fn on_reading(
    store: &mut PgConnection,
    key: &str,
    unit: &str,
    result: i64,
    retry: bool,
) -> Result<i64, sqlx::Error> {
    let seen = if retry { result + 1 } else { result };
    sqlx::query("INSERT INTO readings (key, unit) VALUES ($1, $2)").bind(key).bind(unit).execute(&mut *store).await?;
    Ok(seen)
}
