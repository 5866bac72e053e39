use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct ParcelWeighed {
    pub parcel_no: u64,
    pub kilograms: &'static f32,
}

#[idempotent(key = msg.parcel_no + "/" + msg.kilograms, store = db)]
pub async fn on_parcel_weighed(db: &mut PgConnection, msg: &ParcelWeighed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE parcels SET kilograms = $1").bind(*msg.kilograms).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
