use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Ledger;

impl Ledger {
    pub const BOOK: &'static str = "MAIN";

    #[idempotent(key = Self::BOOK, store = db)]
    pub async fn close_day(&self, db: &mut PgConnection, day: u32) -> Result<(), sqlx::Error> {
        sqlx::query("UPDATE days SET closed = TRUE WHERE day = $1").bind(i64::from(day)).execute(&mut *db).await?;
        Ok(())
    }
}

fn main() {}
