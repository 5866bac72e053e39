//! Trap `float`: the corner of a grid cell, whose bits never differ.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct TileRendered {
    pub layer: String,
    pub corner: f64,
}

#[idempotent(
    key = msg.layer + "@" + msg.corner,
    store = db,
    allow(float(msg.corner), reason = "corners are multiples of 0.25, which binary numbers hold exactly"),
)]
pub async fn on_tile_rendered(db: &mut PgConnection, msg: &TileRendered) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE tiles SET rendered = TRUE WHERE layer = $1").bind(&msg.layer).execute(&mut *db).await?;
    Ok(())
}
