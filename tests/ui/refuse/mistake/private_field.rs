use idem_runtime::idempotent;
use sqlx::PgConnection;

mod messages {
    pub struct Payment {
        order_no: String,
    }

    impl Payment {
        pub fn new(order_no: String) -> Self {
            Self { order_no }
        }

        pub fn no(&self) -> &str {
            &self.order_no
        }
    }
}

pub use messages::Payment as OrderPaid;

#[idempotent(key = msg.order_no, store = db)]
pub async fn on_order_paid(db: &mut PgConnection, msg: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE no = $1").bind(msg.no()).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
