use std::collections::HashMap;

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct AttributesChanged {
    pub attributes: HashMap<String, String>,
}

#[idempotent(key = "msg.attributes", store = "db")]
pub async fn on_attributes(db: &mut MySqlConnection, msg: &AttributesChanged) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE items SET attributes = ?").bind(msg.attributes.len().to_string()).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
