//! Trap `grammar`: text that contains a plus sign.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct BundleSold {
    pub left: String,
    pub right: String,
}

#[idempotent(key = "msg.left + ' + ' + msg.right", store = "db")]
pub async fn on_bundle(db: &mut PgConnection, msg: &BundleSold) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE bundles SET sold = TRUE WHERE left_no = $1").bind(&msg.left).execute(&mut *db).await?;
    Ok(())
}
