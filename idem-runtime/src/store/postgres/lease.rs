use crate::{
    key::hex,
    store::lease::{LeaseAnswer, LeaseBackend, LeaseRow, LeaseStep},
};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, SqlSafeStr as _, SqlStr};

impl LeaseBackend for PgConnection {
    const QUOTE: char = '"';
    const NOW: &'static str = "clock_timestamp()";
    const UNLESS_THERE: &'static str = " ON CONFLICT (scope, action_key) DO NOTHING";

    fn text(text: &str) -> String {
        format!("convert_from('\\x{}', 'UTF8')", hex(text.as_bytes()))
    }

    fn bytes(bytes: &[u8]) -> String {
        format!("'\\x{}'::bytea", hex(bytes))
    }

    fn from_now(millis: i64) -> String {
        format!("clock_timestamp() + ({millis})::bigint * interval '1 millisecond'")
    }

    fn epoch_millis(instant: &str) -> String {
        super::millis(instant)
    }

    fn as_bytes(column: &str) -> String {
        format!("convert_to({column}, 'UTF8')")
    }

    async fn run_step(&mut self, step: &LeaseStep) -> Result<LeaseAnswer, sqlx::Error> {
        let mut answer = LeaseAnswer::default();
        if let Some(change) = &step.change {
            answer.changed = self.execute(sqlx::raw_sql(alone(change))).await?.rows_affected();
        }
        if answer.changed == 0
            && let Some(read) = &step.read
        {
            let rows = self.fetch_all(sqlx::raw_sql(alone(read))).await?;
            answer.rows = rows.iter().map(LeaseRow::read).collect::<Result<_, _>>()?;
        }
        Ok(answer)
    }
}

/// A statement in a transaction of its own, in one trip. Where other code left a transaction open on the connection, the
/// change of level is an error, or else COMMIT ends it; either way nothing is taken for durable that is not.
fn alone(sql: &str) -> SqlStr {
    AssertSqlSafe(format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {sql}; COMMIT"
    ))
    .into_sql_str()
}
