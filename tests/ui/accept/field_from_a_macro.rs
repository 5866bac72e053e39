//! Trap `root`: a key whose field comes from a macro's argument.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Shipped {
    pub parcel_no: String,
}

macro_rules! handler {
    ($name:ident, $message:ty, $field:ident) => {
        #[idempotent(key = msg.$field, store = db)]
        pub async fn $name(db: &mut PgConnection, msg: &$message) -> Result<(), sqlx::Error> {
            sqlx::query("UPDATE parcels SET shipped = TRUE WHERE no = $1").bind(&msg.$field).execute(&mut *db).await?;
            Ok(())
        }
    };
}

handler!(on_shipped, Shipped, parcel_no);
