use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct FileStored {
    pub sha256: [u8; 32],
    pub name: String,
}

#[idempotent(key = msg.sha256, store = db)]
pub async fn on_file_stored(db: &mut PgConnection, msg: &FileStored) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO files (digest) VALUES ($1)").bind(msg.sha256.as_slice()).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
