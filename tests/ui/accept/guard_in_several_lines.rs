//! Trap `guard`: braces, quotes and semicolons inside comments and text.

use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct Payment {
    pub order_no: String,
}

#[idempotent(
    guard = r#"
        -- it's paid once, {however often} the gateway calls
        UPDATE `order`
        SET `status` = 'PAID', note = '{"by": "gateway; a}"}'
        WHERE `order_no` = {msg.order_no} /* the shop's */ AND `status` = 'WAIT_PAY';
    "#,
    store = db,
)]
pub async fn on_paid(db: &mut MySqlConnection, msg: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO shipments (order_no) VALUES (?)").bind(&msg.order_no).execute(&mut *db).await?;
    Ok(())
}
