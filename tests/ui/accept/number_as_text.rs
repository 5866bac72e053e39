//! Trap `grammar`: a version number as text.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct SchemaPublished {
    pub name: String,
}

#[idempotent(key = msg.name + ".v" + "1", store = db)]
pub async fn on_schema(db: &mut MySqlConnection, msg: &SchemaPublished) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE schemas SET published = TRUE WHERE name = ?").bind(&msg.name).execute(&mut *db).await?;
    Ok(())
}
