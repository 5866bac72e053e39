use idem_runtime::{PgStore, idempotent};
use sqlx::PgConnection;

pub trait Orders {
    #[idempotent(key = order_no, store = db)]
    fn paid(&self, db: &mut PgConnection, order_no: &str) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

fn main() {
    let _: Option<PgStore> = None;
}
