//! Trap `repeat`: the same accessor on two fields, in string form.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Stop(pub String);

impl Stop {
    pub fn code(&self) -> &str {
        &self.0
    }
}

pub struct RoutePlanned {
    pub from: Stop,
    pub to: Stop,
}

#[idempotent(key = "msg.from.code() + '-' + msg.to.code()", store = "db")]
pub async fn on_route(db: &mut MySqlConnection, msg: &RoutePlanned) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE stops SET planned = TRUE WHERE code = ?").bind(&msg.from.0).execute(&mut *db).await?;
    Ok(())
}
