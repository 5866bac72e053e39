use crate::{
    key::hex,
    store::lease::{LeaseAnswer, LeaseBackend, LeaseRow, LeaseStep},
};
use sqlx::{AssertSqlSafe, Executor as _, Row as _, SqliteConnection};

impl LeaseBackend for SqliteConnection {
    const QUOTE: char = '"';
    const NOW: &'static str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
    const UNLESS_THERE: &'static str = " ON CONFLICT (scope, action_key) DO NOTHING";

    fn text(text: &str) -> String {
        format!("CAST({} AS TEXT)", Self::bytes(text.as_bytes()))
    }

    fn bytes(bytes: &[u8]) -> String {
        format!("X'{}'", hex(bytes))
    }

    fn from_now(millis: i64) -> String {
        let (sign, millis) = (if millis < 0 { '-' } else { '+' }, millis.unsigned_abs());
        format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '{sign}{}.{:03} seconds')", millis / 1000, millis % 1000)
    }

    fn epoch_millis(instant: &str) -> String {
        super::millis(instant)
    }

    fn as_bytes(column: &str) -> String {
        format!("CAST({column} AS BLOB)")
    }

    async fn run_step(&mut self, step: &LeaseStep) -> Result<LeaseAnswer, sqlx::Error> {
        let mut answer = LeaseAnswer::default();
        if let Some(change) = &step.change {
            // BEGIN fails where other code left a transaction open. What a statement changed SQLite tells only in SQL:
            // the count that comes with an answer is that of the last change, whenever it was.
            let change = format!("BEGIN IMMEDIATE; {change}; SELECT changes(); COMMIT");
            let row = self.fetch_all(sqlx::raw_sql(AssertSqlSafe(change))).await?;
            let changed: i64 = row.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
            answer.changed = changed.unsigned_abs();
        }
        if answer.changed == 0
            && let Some(read) = &step.read
        {
            let rows = self.fetch_all(sqlx::raw_sql(AssertSqlSafe(read.clone()))).await?;
            answer.rows = rows.iter().map(LeaseRow::read).collect::<Result<_, _>>()?;
        }
        Ok(answer)
    }
}
