//! Trap `separator`: a separator of another script.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct ParcelPosted {
    pub from: String,
    pub parcel_no: i64,
}

#[idempotent(key = "msg.from + '→包裹' + msg.parcel_no", store = "db")]
pub async fn on_parcel(db: &mut PgConnection, msg: &ParcelPosted) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE parcels SET posted = TRUE WHERE no = $1").bind(msg.parcel_no).execute(&mut *db).await?;
    Ok(())
}
