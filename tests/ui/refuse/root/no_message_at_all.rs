use idem_runtime::idempotent;
use sqlx::MySqlConnection;

#[idempotent(key = batch.no, store = db)]
pub async fn run_batch(db: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE batches SET done = TRUE").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
