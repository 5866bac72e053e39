//! Trap `null`: a newtype over an optional coupon, required by the value inside.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct CouponNo(pub Option<String>);

pub struct CouponUsed {
    pub member_no: i64,
    pub coupon: CouponNo,
}

#[idempotent(key = msg.member_no + "/" + msg.coupon.0?, store = db)]
pub async fn on_coupon_used(db: &mut SqliteConnection, msg: &CouponUsed) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE coupons SET used = TRUE WHERE no = ?").bind(&msg.coupon.0).execute(&mut *db).await?;
    Ok(())
}
