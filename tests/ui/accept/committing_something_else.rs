//! Trap `transaction`: a commit of something else than the connection.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Draft {
    pub no: String,
    pub db: Vec<String>,
}

impl Draft {
    pub fn commit(&mut self) {
        self.db.clear();
    }

    pub fn rollback(&mut self) {
        self.db.pop();
    }
}

#[idempotent(key = draft.no, store = db)]
pub async fn on_draft(db: &mut PgConnection, draft: &mut Draft) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE drafts SET done = TRUE WHERE no = $1").bind(&draft.no).execute(&mut *db).await?;
    draft.rollback();
    draft.commit();
    Ok(())
}
