//! Trap `constant`: an associated constant in front of a number.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Ledger;

impl Ledger {
    pub const BOOK: &'static str = "MAIN";

    #[idempotent(key = Self::BOOK + "/" + entry_no, store = db, scope = "associated_constant_and_a_number.book")]
    pub async fn book(&self, db: &mut PgConnection, entry_no: i64) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO entries (no) VALUES ($1)").bind(entry_no).execute(&mut *db).await?;
        Ok(())
    }
}
