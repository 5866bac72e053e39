use idem_runtime::{Handled, Outcome, PgStore, idempotent};
use sqlx::PgConnection;

#[allow(async_fn_in_trait)]
pub trait Orders {
    #[idempotent(key = order_no, store = db)]
    async fn paid(&self, db: &mut PgConnection, order_no: &str) -> Result<(), sqlx::Error>;
}

pub async fn caller(orders: impl Orders, store: &PgStore) -> Handled<Result<(), sqlx::Error>> {
    match orders.paid(store, "A1").await? {
        Outcome::First(()) => Ok(Outcome::First(())),
        other => Ok(other),
    }
}

fn main() {}
