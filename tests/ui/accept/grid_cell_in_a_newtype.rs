//! Trap `float`: a newtype over a float that is copied and never computed.

use idem_runtime::{KeyPart, idempotent};
use sqlx::MySqlConnection;

#[derive(KeyPart)]
pub struct Edge(pub f32);

pub struct CellPriced {
    pub zone: String,
    pub edge: Edge,
}

#[idempotent(
    key = "msg.zone + '@' + msg.edge",
    store = "db",
    allow(float(msg.edge), reason = "it is copied from the map file as its four bytes"),
)]
pub async fn on_cell_priced(db: &mut MySqlConnection, msg: &CellPriced) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE zones SET priced = TRUE WHERE no = ?").bind(&msg.zone).execute(&mut *db).await?;
    Ok(())
}
