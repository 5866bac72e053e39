//! Trap `derive`: a newtype over borrowed text.

use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;

#[derive(KeyPart)]
pub struct Page<'a>(pub &'a str);

pub struct Visit {
    pub page: Page<'static>,
    pub visitor: i64,
}

#[idempotent(key = msg.page + "?" + msg.visitor, store = db)]
pub async fn on_visit(db: &mut PgConnection, msg: &Visit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE pages SET visits = visits + 1 WHERE path = $1").bind(msg.page.0).execute(&mut *db).await?;
    Ok(())
}
