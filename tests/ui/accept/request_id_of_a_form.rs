//! Trap `random`: a request id that the client makes once and sends again unchanged.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Checkout {
    pub request_id: String,
}

#[idempotent(
    key = msg.request_id,
    store = db,
    allow(random(msg.request_id), reason = "the form makes it when it is opened, and every retry sends it again"),
)]
pub async fn on_checkout(db: &mut PgConnection, msg: &Checkout) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (request) VALUES ($1)").bind(&msg.request_id).execute(&mut *db).await?;
    Ok(())
}
