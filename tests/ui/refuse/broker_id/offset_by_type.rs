use idem_runtime::{BrokerAssigned, KeyPart, KeyWriter, idempotent};
use sqlx::PgConnection;

pub struct Offset(pub i64);

impl KeyPart for Offset {
    type Risk = BrokerAssigned<Self>;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        out.display(self.0);
    }
}

pub struct Record {
    pub topic: String,
    pub place: Offset,
}

#[idempotent(key = msg.topic + ":" + msg.place, store = db)]
pub async fn on_record(db: &mut PgConnection, msg: &Record) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO seen (place) VALUES ($1)").bind(msg.place.0).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
