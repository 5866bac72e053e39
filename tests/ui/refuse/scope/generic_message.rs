use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Envelope<T> {
    pub no: String,
    pub content: T,
}

#[idempotent(key = msg.no, store = db)]
pub async fn handle<T: Sync>(db: &mut MySqlConnection, msg: &Envelope<T>) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO seen (no) VALUES (?)").bind(&msg.no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
