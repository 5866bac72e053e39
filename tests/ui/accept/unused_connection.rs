//! Trap `store`: a body that leaves all to its guard.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Credit {
    pub account: String,
    pub biz_no: String,
}

#[idempotent(
    guard = "INSERT INTO account_flow (account, biz_no) VALUES ({msg.account}, {msg.biz_no})",
    unique = "uq_account_flow",
    store = _db
)]
pub async fn on_credit(_db: &mut PgConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    Ok(())
}
