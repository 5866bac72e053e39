use super::{DUPLICATE_ENTRY, number};
use crate::{
    key::hex,
    store::lease::{LeaseAnswer, LeaseBackend, LeaseRow, LeaseStep},
};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

impl LeaseBackend for MySqlConnection {
    const QUOTE: char = '`';
    const NOW: &'static str = "UTC_TIMESTAMP(6)";
    // INSERT IGNORE swallows more than a conflict.
    const UNLESS_THERE: &'static str = "";

    fn text(text: &str) -> String {
        Self::bytes(text.as_bytes())
    }

    fn long_text(text: &str) -> String {
        format!("CONVERT({} USING utf8mb4)", Self::bytes(text.as_bytes()))
    }

    fn bytes(bytes: &[u8]) -> String {
        format!("X'{}'", hex(bytes))
    }

    fn from_now(millis: i64) -> String {
        format!("TIMESTAMPADD(MICROSECOND, {}, UTC_TIMESTAMP(6))", millis.saturating_mul(1000))
    }

    fn epoch_millis(instant: &str) -> String {
        super::millis(instant)
    }

    fn as_bytes(column: &str) -> String {
        format!("CAST({column} AS BINARY)")
    }

    /// The COMMIT is for sessions whose autocommit is off, and does nothing in others.
    async fn run_step(&mut self, step: &LeaseStep) -> Result<LeaseAnswer, sqlx::Error> {
        let mut answer = LeaseAnswer::default();
        if let Some(change) = &step.change {
            let change = format!("{change}; COMMIT");
            match self.execute(sqlx::raw_sql(AssertSqlSafe(change))).await {
                Ok(done) => answer.changed = done.rows_affected(),
                // The table has one unique index.
                Err(error) if number(&error) == Some(DUPLICATE_ENTRY) => {}
                Err(error) => return Err(error),
            }
        }
        if answer.changed == 0
            && let Some(read) = &step.read
        {
            let read = format!("ROLLBACK; {read}; COMMIT");
            let rows = self.fetch_all(sqlx::raw_sql(AssertSqlSafe(read))).await?;
            answer.rows = rows.iter().map(LeaseRow::read).collect::<Result<_, _>>()?;
        }
        Ok(answer)
    }
}
