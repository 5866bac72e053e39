//! Trap `derive`: a newtype over any part.

use idem_runtime::{KeyPart, idempotent};
use sqlx::SqliteConnection;

#[derive(KeyPart)]
pub struct Tagged<T>(pub T);

pub struct Wrapped {
    pub outer: Tagged<Tagged<String>>,
    pub count: Tagged<u32>,
}

#[idempotent(key = "msg.outer + 'x' + msg.count", store = "db")]
pub async fn on_wrapped(db: &mut SqliteConnection, msg: &Wrapped) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE wraps SET seen = TRUE WHERE no = ?").bind(&msg.outer.0.0).execute(&mut *db).await?;
    Ok(())
}
