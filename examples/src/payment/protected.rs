//! The handlers with idem. The attribute is all that they need; `trouble` is what the acts bring in.
//!
//! One shop system gives out all order and refund numbers, so they are unique over its merchants. Where every merchant
//! numbers on its own, the merchant belongs into the key as well.

use super::{alipay, body, error::PayError, trouble::Trouble, wechat};
use crate::money::Cents;
use idem_runtime::idempotent;
use sqlx::SqliteConnection;

/// A trade notification of Alipay. Each state of an order is a fact of its own.
#[idempotent(key = msg.out_trade_no + ":" + msg.trade_status, store = db, delivery = msg.notify_id)]
pub(crate) async fn on_alipay_trade(
    db: &mut SqliteConnection,
    msg: &alipay::Trade,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    body::alipay_trade(db, msg, trouble).await
}

/// A refund notification of Alipay. Its state is that of the payment, so the refund's number tells them apart.
#[idempotent(key = msg.out_trade_no + ":REFUND:" + msg.out_biz_no, store = db, delivery = msg.notify_id)]
pub(crate) async fn on_alipay_refund(
    db: &mut SqliteConnection,
    msg: &alipay::Refund,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    body::alipay_refund(db, msg, trouble).await
}

/// A payment notification of WeChat Pay.
#[idempotent(key = msg.out_trade_no + ":" + msg.trade_state, store = db, delivery = msg.id)]
pub(crate) async fn on_wechat_transaction(
    db: &mut SqliteConnection,
    msg: &wechat::Transaction,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    body::wechat_transaction(db, msg, trouble).await
}

/// A refund notification of WeChat Pay. The status is in the key: a refund can be abnormal first and succeed later.
#[idempotent(key = msg.out_trade_no + ":REFUND:" + msg.out_refund_no + ":" + msg.refund_status, store = db, delivery = msg.id)]
pub(crate) async fn on_wechat_refund(
    db: &mut SqliteConnection,
    msg: &wechat::Refund,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    body::wechat_refund(db, msg, trouble).await
}
