//! Trap `key_part`: an enum behind a box in a reference.

use idem_runtime::{KeyPart, idempotent};
use sqlx::PgConnection;

#[derive(KeyPart)]
pub enum State {
    Open,
    Shut,
}

pub struct DoorMoved {
    pub door: &'static str,
    pub state: Box<State>,
    pub step: u16,
}

#[idempotent(key = msg.door + ":" + msg.state + ":" + msg.step, store = db)]
pub async fn on_door(db: &mut PgConnection, msg: &DoorMoved) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE doors SET moved = TRUE WHERE no = $1").bind(msg.door).execute(&mut *db).await?;
    Ok(())
}
