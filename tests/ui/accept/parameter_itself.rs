//! Trap `root`: a parameter that is the whole key.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = "coupon_no", store = "db")]
pub async fn redeem(db: &mut PgConnection, coupon_no: &str) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE coupons SET used = TRUE WHERE no = $1").bind(coupon_no).execute(&mut *db).await?;
    Ok(())
}
