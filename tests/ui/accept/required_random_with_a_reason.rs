//! Trap `required`: a part that is both optional and random, with both dealt with.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;
use uuid::Uuid;

pub struct ClaimFiled {
    pub policy: String,
    pub form: Option<Uuid>,
}

#[idempotent(
    key = msg.policy + ":" + msg.form?,
    store = db,
    allow(random(msg.form), reason = "it is printed on the paper form, and every scan reads the same one"),
)]
pub async fn on_claim(db: &mut MySqlConnection, msg: &ClaimFiled) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE policies SET claims = claims + 1 WHERE no = ?").bind(&msg.policy).execute(&mut *db).await?;
    Ok(())
}
