use idem_runtime::{Handled, SqliteStore, idempotent};
use sqlx::SqliteConnection;

pub trait OnShipped {
    fn handle(&self, db: &SqliteStore, parcel_no: &str) -> impl Future<Output = Handled<Result<(), sqlx::Error>>>;
}

pub struct Notice;

impl OnShipped for Notice {
    #[idempotent(key = parcel_no, store = db, retry = 2)]
    async fn handle(&self, db: &mut SqliteConnection, parcel_no: &str) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO notices (parcel_no) VALUES (?)").bind(parcel_no).execute(&mut *db).await?;
        Ok(())
    }
}

fn main() {}
