//! Trap `scope`: a one-time token with its scope.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Form {
    pub token: String,
    pub sku: String,
}

#[idempotent(token = form.token, store = db, scope = "order.submit", payload = form.sku, replay)]
pub async fn submit(db: &mut PgConnection, form: &Form) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("INSERT INTO orders (sku) VALUES ($1) RETURNING id").bind(&form.sku).fetch_one(&mut *db).await
}
