//! Trap `random`: a trace code, which is printed on the parcel.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct ParcelScanned {
    pub trace_code: String,
    pub station: String,
}

#[idempotent(key = msg.trace_code + "@" + msg.station, store = db)]
pub async fn on_parcel_scanned(db: &mut PgConnection, msg: &ParcelScanned) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE parcels SET station = 'HERE' WHERE trace_code = $1")
        .bind(&msg.trace_code)
        .execute(&mut *db)
        .await?;
    Ok(())
}
