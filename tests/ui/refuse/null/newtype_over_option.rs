use idem_runtime::{KeyPart, idempotent};
use sqlx::SqliteConnection;

#[derive(KeyPart)]
pub struct CouponNo(pub Option<String>);

pub struct CouponUsed {
    pub coupon_no: CouponNo,
}

#[idempotent(key = msg.coupon_no, store = db)]
pub async fn on_coupon_used(db: &mut SqliteConnection, msg: &CouponUsed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE coupons SET used = TRUE WHERE no = ?").bind(&msg.coupon_no.0).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
