//! Trap `function`: methods by reference, by mutable reference, by value and behind a shared pointer.

use std::sync::Arc;

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct Counter {
    pub line: String,
    pub seen: u64,
}

impl Counter {
    #[idempotent(key = self.line + "/" + no, store = db, scope = "methods_by_every_receiver.read")]
    pub async fn read(&self, db: &mut SqliteConnection, no: i64) -> Result<u64, sqlx::Error> {
        sqlx::query("INSERT INTO counts (no) VALUES (?)").bind(no).execute(&mut *db).await?;
        Ok(self.seen)
    }

    #[idempotent(key = self.line + "/" + no, store = db, scope = "methods_by_every_receiver.count")]
    pub async fn count(&mut self, db: &mut SqliteConnection, no: i64) -> Result<(), sqlx::Error> {
        self.seen += 1;
        sqlx::query("INSERT INTO counts (no) VALUES (?)").bind(no).execute(&mut *db).await?;
        Ok(())
    }

    #[idempotent(key = self.line + "/" + no, store = db, scope = "methods_by_every_receiver.close")]
    pub async fn close(self, db: &mut SqliteConnection, no: i64) -> Result<String, sqlx::Error> {
        sqlx::query("INSERT INTO counts (no) VALUES (?)").bind(no).execute(&mut *db).await?;
        Ok(self.line)
    }

    #[idempotent(key = self.line + "/" + no, store = db, scope = "methods_by_every_receiver.share")]
    pub async fn share(self: Arc<Self>, db: &mut SqliteConnection, no: i64) -> Result<Arc<Self>, sqlx::Error> {
        sqlx::query("INSERT INTO counts (no) VALUES (?)").bind(no).execute(&mut *db).await?;
        Ok(self)
    }

    #[idempotent(key = no, store = db)]
    pub async fn fresh(db: &mut SqliteConnection, no: i64) -> Result<Self, sqlx::Error> {
        sqlx::query("INSERT INTO counts (no) VALUES (?)").bind(no).execute(&mut *db).await?;
        Ok(Self { line: no.to_string(), seen: 0 })
    }
}
