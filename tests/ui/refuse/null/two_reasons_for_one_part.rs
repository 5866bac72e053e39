use idem_runtime::idempotent;
use sqlx::PgConnection;
use uuid::Uuid;

pub struct Topup {
    pub card_no: String,
    pub wish: Option<Uuid>,
}

#[idempotent(key = msg.card_no + ":" + msg.wish, store = db)]
pub async fn on_topup(db: &mut PgConnection, msg: &Topup) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE cards SET balance = balance + 1 WHERE no = $1").bind(&msg.card_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
