//! Trap `derive`: a derive that names the runtime by another path.

use idem_runtime::{KeyPart, idempotent};
use sqlx::MySqlConnection;

pub use idem_runtime as once;

#[derive(KeyPart)]
#[key_part(crate = once)]
pub struct LotNo(pub u32);

pub struct LotSold {
    pub lot: LotNo,
}

#[idempotent(key = msg.lot, store = db)]
pub async fn on_lot(db: &mut MySqlConnection, msg: &LotSold) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE lots SET sold = TRUE WHERE no = ?").bind(msg.lot.0).execute(&mut *db).await?;
    Ok(())
}
