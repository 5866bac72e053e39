//! Trap `computed`: a chain of accessors without arguments.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Parcel {
    pub number: String,
    pub depot: Depot,
}

pub struct Depot {
    pub code: String,
}

impl Parcel {
    pub fn number(&self) -> &str {
        &self.number
    }

    pub fn depot(&self) -> &Depot {
        &self.depot
    }
}

impl Depot {
    pub fn code(&self) -> String {
        self.code.to_uppercase()
    }
}

#[idempotent(key = msg.number() + "@" + msg.depot().code(), store = db)]
pub async fn on_parcel(db: &mut PgConnection, msg: &Parcel) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE parcels SET seen = TRUE WHERE no = $1").bind(msg.number()).execute(&mut *db).await?;
    Ok(())
}
