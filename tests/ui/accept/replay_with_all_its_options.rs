//! Trap `argument`: a result that is kept with every option.

use idem_runtime::idempotent;
use sqlx::PgConnection;

fn hide(receipt: &mut (String, i64)) {
    receipt.0.clear();
}

#[idempotent(key = order_no, store = db, retry = 2, replay(redact = hide, limit = 4096, version = 3))]
pub async fn on_paid(db: &mut PgConnection, order_no: &str) -> Result<(String, i64), sqlx::Error> {
    sqlx::query("UPDATE orders SET paid = TRUE WHERE no = $1").bind(order_no).execute(&mut *db).await?;
    Ok((order_no.to_owned(), 1))
}
