//! What a platform sends, whichever platform it is.

use super::{
    alipay,
    error::{BadNotification, StoryError},
    wechat,
};
use crate::money::Cents;
use idem_runtime::KeyPart;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// A number that the merchant gave to an order or a refund. It stays the same in every delivery, so it can be the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, KeyPart)]
pub(crate) struct MerchantNo(String);

impl MerchantNo {
    /// Takes what both platforms allow: up to 64 ASCII letters, digits and `_-|*@`.
    pub(crate) fn new(text: String) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-|*@".contains(&byte);
        ((1..=64).contains(&text.len()) && text.bytes().all(allowed)).then_some(Self(text))
    }

    /// The number's text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MerchantNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The account that money moves in or out of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Merchant {
    /// `Alipay` or `WeChat`.
    pub(crate) channel: &'static str,
    /// The platform's number for the merchant: `seller_id` or `mchid`.
    pub(crate) id: String,
}

/// A notification, sorted by the handler that takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// Alipay: the state of a trade.
    AlipayTrade(alipay::Trade),
    /// Alipay: a refund of a trade.
    AlipayRefund(alipay::Refund),
    /// WeChat Pay: the state of a transaction.
    WechatTransaction(wechat::Transaction),
    /// WeChat Pay: the state of a refund.
    WechatRefund(wechat::Refund),
}

/// What a notification says about money, without regard to how often it says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// The order was paid.
    Paid(Cents),
    /// Up to this refund, this much of the order was given back over all refunds.
    RefundedSoFar(MerchantNo, Cents),
    /// This one refund gave this much back.
    Refunded(MerchantNo, Cents),
    /// No money moved.
    NoMoney,
}

impl Notification {
    /// The id of this arrival. For logs: it is not the same in every arrival of one fact.
    pub(crate) fn delivery_id(&self) -> &str {
        match self {
            Self::AlipayTrade(msg) => &msg.notify_id,
            Self::AlipayRefund(msg) => &msg.notify_id,
            Self::WechatTransaction(msg) => &msg.id,
            Self::WechatRefund(msg) => &msg.id,
        }
    }

    /// The key as it is stored, for the report: a word that the attribute puts between parts stands in quotes. A test
    /// compares this with the stored records.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::AlipayTrade(msg) => format!("{}:{}", msg.out_trade_no, msg.trade_status),
            Self::AlipayRefund(msg) => format!("{}:'REFUND':{}", msg.out_trade_no, msg.out_biz_no),
            Self::WechatTransaction(msg) => format!("{}:{}", msg.out_trade_no, msg.trade_state),
            Self::WechatRefund(msg) => {
                format!("{}:'REFUND':{}:{}", msg.out_trade_no, msg.out_refund_no, msg.refund_status)
            }
        }
    }

    /// The merchant and the order that the notification is about.
    pub(crate) fn order(&self) -> (&Merchant, &MerchantNo) {
        match self {
            Self::AlipayTrade(msg) => (&msg.seller, &msg.out_trade_no),
            Self::AlipayRefund(msg) => (&msg.seller, &msg.out_trade_no),
            Self::WechatTransaction(msg) => (&msg.merchant, &msg.out_trade_no),
            Self::WechatRefund(msg) => (&msg.merchant, &msg.out_trade_no),
        }
    }

    /// What the notification says about money.
    pub(crate) fn fact(&self) -> Fact {
        match self {
            Self::AlipayTrade(msg) if msg.trade_status == alipay::TradeStatus::Success => Fact::Paid(msg.total_amount),
            Self::AlipayRefund(msg) => Fact::RefundedSoFar(msg.out_biz_no.clone(), msg.refund_fee),
            Self::WechatTransaction(msg) if msg.trade_state == wechat::TradeState::Success => Fact::Paid(msg.total),
            Self::WechatRefund(msg) if msg.refund_status == wechat::RefundStatus::Success => {
                Fact::Refunded(msg.out_refund_no.clone(), msg.refund)
            }
            Self::AlipayTrade(_) | Self::WechatTransaction(_) | Self::WechatRefund(_) => Fact::NoMoney,
        }
    }

    /// Reads one file: `.form` is an Alipay request body, `.json` a WeChat Pay notification.
    pub(crate) fn read(path: &Path) -> Result<Self, StoryError> {
        let body = fs::read_to_string(path).map_err(|source| StoryError::Read { path: path.into(), source })?;
        let parsed = match path.extension().and_then(|extension| extension.to_str()) {
            Some("form") => alipay::parse(body.trim_end()),
            Some("json") => wechat::parse(&body),
            _ => Err(BadNotification::UnknownFormat),
        };
        parsed.map_err(|source| StoryError::Notification { path: path.into(), source })
    }
}

/// The notification files of a folder, in the order of their names.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, StoryError> {
    let unreadable = |source| StoryError::Read { path: folder.into(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        files.push(entry.map_err(unreadable)?.path());
    }
    files.sort();
    Ok(files)
}
