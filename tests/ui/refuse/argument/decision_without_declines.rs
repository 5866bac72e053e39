use idem_runtime::{Decision, idempotent};
use sqlx::PgConnection;

pub struct OrderPaid {
    pub order_no: String,
}

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<Decision<()>, sqlx::Error> {
    let found = sqlx::query("SELECT 1 FROM orders WHERE no = $1").bind(&msg.order_no).fetch_optional(&mut *db).await?;
    Ok(if found.is_some() { Decision::Done(()) } else { Decision::retry("the order is not here yet") })
}

fn main() {}
