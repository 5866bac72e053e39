use std::sync::Arc;

use idem_runtime::idempotent;
use sqlx::PgConnection;
use uuid::Uuid;

pub struct ParcelWeighed {
    pub parcel: Arc<Uuid>,
}

#[idempotent(key = msg.parcel, store = db)]
pub async fn on_parcel_weighed(db: &mut PgConnection, msg: &ParcelWeighed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE parcels SET weighed = TRUE WHERE id = $1")
        .bind(msg.parcel.to_string())
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
