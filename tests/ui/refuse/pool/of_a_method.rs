use idem_runtime::{MySqlStore, idempotent};
use sqlx::{MySqlConnection, MySqlPool};

pub struct Ledger {
    pub store: MySqlStore,
}

impl Ledger {
    #[idempotent(key = entry_no, store = self.store, tx = tx)]
    pub async fn book(&self, tx: &mut MySqlConnection, entry_no: u64, reports: &MySqlPool) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO entries (no) VALUES (?)").bind(entry_no).execute(&mut *tx).await?;
        sqlx::query("UPDATE reports SET stale = TRUE").execute(reports).await?;
        Ok(())
    }
}

fn main() {}
