//! Trap `broker_id`: a position of a broker-assigned type that never moves any more.

use idem_runtime::{BrokerAssigned, KeyPart, KeyWriter, idempotent};
use sqlx::PgConnection;

pub struct Position(pub i64);

impl KeyPart for Position {
    type Risk = BrokerAssigned<Self>;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        out.display(self.0);
    }
}

pub struct Archived {
    pub file: String,
    pub position: Position,
}

#[idempotent(
    key = "msg.file + '@' + msg.position",
    store = db,
    allow(broker_id(msg.position), reason = "the log is closed: a record is read again from the same place"),
)]
pub async fn on_archived(db: &mut PgConnection, msg: &Archived) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO archived (file) VALUES ($1)").bind(&msg.file).execute(&mut *db).await?;
    Ok(())
}
