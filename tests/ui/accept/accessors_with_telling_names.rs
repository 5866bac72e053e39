//! Trap `computed`: accessors named like functions that compute.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Document {
    pub number: String,
    pub landscape: bool,
}

impl Document {
    pub fn format(&self) -> &'static str {
        if self.landscape { "A4L" } else { "A4" }
    }

    pub fn hash(&self) -> &str {
        &self.number
    }
}

#[idempotent(key = doc.hash() + "." + doc.format(), store = db)]
pub async fn on_document(db: &mut PgConnection, doc: &Document) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO documents (number) VALUES ($1)").bind(&doc.number).execute(&mut *db).await?;
    Ok(())
}
