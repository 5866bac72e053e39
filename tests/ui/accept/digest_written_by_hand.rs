//! Trap `key_part`: a digest whose text is written by hand.

use idem_runtime::{KeyPart, KeyWriter, Stable, idempotent};
use sqlx::SqliteConnection;

pub struct Digest(pub [u8; 4]);

impl KeyPart for Digest {
    type Risk = Stable;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        out.display(format_args!("{:08x}", u32::from_be_bytes(self.0)));
    }
}

pub struct FileStored {
    pub digest: Digest,
}

#[idempotent(key = msg.digest, store = db)]
pub async fn on_file_stored(db: &mut SqliteConnection, msg: &FileStored) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO files (digest) VALUES (?)").bind(msg.digest.0.as_slice()).execute(&mut *db).await?;
    Ok(())
}
