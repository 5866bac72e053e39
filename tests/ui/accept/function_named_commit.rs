//! Trap `transaction`: a function of the business named commit.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub mod git {
    use sqlx::MySqlConnection;

    pub async fn commit(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO commits (no) VALUES (?)").bind(order_no).execute(&mut *db).await?;
        Ok(())
    }

    pub async fn rollback(db: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO rollbacks (n) VALUES (1)").execute(&mut *db).await?;
        Ok(())
    }
}

#[idempotent(key = order_no, store = db)]
pub async fn on_order(db: &mut MySqlConnection, order_no: &str) -> Result<(), sqlx::Error> {
    git::commit(db, order_no).await?;
    git::rollback(db).await
}
