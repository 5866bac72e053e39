//! Trap `argument`: a retry whose body borrows and clones its parameters.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, retry = 5)]
pub async fn on_order(db: &mut PgConnection, order_no: String, lines: Vec<String>) -> Result<usize, sqlx::Error> {
    for line in &lines {
        sqlx::query("INSERT INTO lines (no, line) VALUES ($1, $2)")
            .bind(order_no.clone())
            .bind(line)
            .execute(&mut *db)
            .await?;
    }
    Ok(lines.len())
}
