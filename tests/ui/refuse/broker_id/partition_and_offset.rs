use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Record {
    pub partition: i32,
    pub offset: i64,
}

#[idempotent(key = msg.partition + "-" + msg.offset, store = db)]
pub async fn on_record(db: &mut PgConnection, msg: &Record) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO seen (place) VALUES ($1)").bind(msg.offset).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
