//! Trap `separator`: a quote inside the separator, written twice.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct HeightMeasured {
    pub person_no: i64,
    pub feet: u8,
    pub inches: u8,
}

#[idempotent(key = "msg.person_no + ': ' + msg.feet + '''' + msg.inches", store = "db")]
pub async fn on_feet(db: &mut SqliteConnection, msg: &HeightMeasured) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE people SET measured = TRUE WHERE no = ?").bind(msg.person_no).execute(&mut *db).await?;
    Ok(())
}
