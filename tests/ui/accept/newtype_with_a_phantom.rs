//! Trap `derive`: a newtype with a marker beside its value.

use std::marker::PhantomData;

use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;

#[derive(KeyPart)]
pub struct Id<T> {
    pub raw: i64,
    pub of: PhantomData<T>,
}

pub struct User;

pub struct Order;

pub struct Seen {
    pub user: Id<User>,
    pub order: Id<Order>,
}

#[idempotent(key = msg.user + "/" + msg.order, store = db)]
pub async fn on_seen(db: &mut PgConnection, msg: &Seen) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET seen = TRUE WHERE no = $1").bind(msg.order.raw).execute(&mut *db).await?;
    Ok(())
}
