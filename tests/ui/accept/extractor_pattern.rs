//! Trap `root`: a message inside an extractor.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Json<T>(pub T);

pub struct Signup {
    pub mail: String,
}

#[idempotent(key = form.mail, store = db)]
pub async fn sign_up(db: &mut PgConnection, Json(form): Json<Signup>) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO users (mail) VALUES ($1)").bind(form.mail).execute(&mut *db).await?;
    Ok(())
}
