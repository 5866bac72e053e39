//! The handlers without idem: the same bodies, each in a plain transaction.

use super::{alipay, body, error::PayError, trouble::Trouble, wechat};
use crate::money::Cents;
use sqlx::SqlitePool;

// A plain BEGIN takes the write lock late and would fail some of the copies that arrive at once. IMMEDIATE lets every
// copy through, which is what a database server does.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// A trade notification of Alipay.
pub(crate) async fn on_alipay_trade(
    db: &SqlitePool,
    msg: &alipay::Trade,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    let mut tx = db.begin_with(BEGIN).await?;
    let booked = body::alipay_trade(&mut tx, msg, trouble).await?;
    tx.commit().await?;
    Ok(booked)
}

/// A refund notification of Alipay.
pub(crate) async fn on_alipay_refund(
    db: &SqlitePool,
    msg: &alipay::Refund,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    let mut tx = db.begin_with(BEGIN).await?;
    let booked = body::alipay_refund(&mut tx, msg, trouble).await?;
    tx.commit().await?;
    Ok(booked)
}

/// A payment notification of WeChat Pay.
pub(crate) async fn on_wechat_transaction(
    db: &SqlitePool,
    msg: &wechat::Transaction,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    let mut tx = db.begin_with(BEGIN).await?;
    let booked = body::wechat_transaction(&mut tx, msg, trouble).await?;
    tx.commit().await?;
    Ok(booked)
}

/// A refund notification of WeChat Pay.
pub(crate) async fn on_wechat_refund(
    db: &SqlitePool,
    msg: &wechat::Refund,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    let mut tx = db.begin_with(BEGIN).await?;
    let booked = body::wechat_refund(&mut tx, msg, trouble).await?;
    tx.commit().await?;
    Ok(booked)
}
