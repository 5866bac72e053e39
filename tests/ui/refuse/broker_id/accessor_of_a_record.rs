use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Record {
    place: i64,
    pub order_no: String,
}

impl Record {
    pub fn offset(&self) -> i64 {
        self.place
    }
}

#[idempotent(key = rec.order_no + "@" + rec.offset(), store = db)]
pub async fn on_record(db: &mut PgConnection, rec: &Record) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(&rec.order_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
