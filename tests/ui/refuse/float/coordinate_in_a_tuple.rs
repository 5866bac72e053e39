use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct GeofenceLeft {
    pub vehicle: u64,
    pub at: (f64, f64),
}

#[idempotent(key = msg.vehicle + "@" + msg.at.0, store = db)]
pub async fn on_geofence(db: &mut PgConnection, msg: &GeofenceLeft) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO left_fences (latitude) VALUES ($1)").bind(msg.at.0).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
