//! WeChat Pay's APIv3 notifications, with `resource` decrypted.
//!
//! A real endpoint verifies the `Wechatpay-Signature` header and decrypts `resource.ciphertext` first. In the sample
//! files `resource` is the JSON that comes out of that.

use super::{
    error::BadNotification,
    notification::{Merchant, MerchantNo, Notification},
};
use crate::money::Cents;
use idem_runtime::KeyPart;
use serde::Deserialize;
use std::fmt;

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, KeyPart)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum TradeState {
    /// Paid.
    #[key_part(text = "SUCCESS")]
    Success,
    /// Paid, then refunded.
    #[key_part(text = "REFUND")]
    Refund,
    /// Not paid yet.
    #[key_part(text = "NOTPAY")]
    NotPay,
    /// Closed without payment.
    #[key_part(text = "CLOSED")]
    Closed,
    /// Taken back by the merchant.
    #[key_part(text = "REVOKED")]
    Revoked,
    /// The buyer is paying.
    #[key_part(text = "USERPAYING")]
    UserPaying,
    /// The payment failed.
    #[key_part(text = "PAYERROR")]
    PayError,
}

impl TradeState {
    /// The platform's word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Refund => "REFUND",
            Self::NotPay => "NOTPAY",
            Self::Closed => "CLOSED",
            Self::Revoked => "REVOKED",
            Self::UserPaying => "USERPAYING",
            Self::PayError => "PAYERROR",
        }
    }
}

impl fmt::Display for TradeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, KeyPart)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum RefundStatus {
    /// The money is back with the buyer.
    #[key_part(text = "SUCCESS")]
    Success,
    /// The refund was given up.
    #[key_part(text = "CLOSED")]
    Closed,
    /// The money could not be given back yet, for example because the card is closed.
    #[key_part(text = "ABNORMAL")]
    Abnormal,
}

impl RefundStatus {
    /// The platform's word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Closed => "CLOSED",
            Self::Abnormal => "ABNORMAL",
        }
    }
}

impl fmt::Display for RefundStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A transaction has a new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// The envelope's id: another one for each delivery.
    pub(crate) id: String,
    /// Who is paid.
    pub(crate) merchant: Merchant,
    /// The merchant's order number.
    pub(crate) out_trade_no: MerchantNo,
    /// The state.
    pub(crate) trade_state: TradeState,
    /// What the order costs.
    pub(crate) total: Cents,
}

/// A refund has a new state.
#[expect(clippy::struct_field_names, reason = "the platform's own names")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refund {
    /// The envelope's id: another one for each delivery.
    pub(crate) id: String,
    /// Who pays back.
    pub(crate) merchant: Merchant,
    /// The merchant's order number.
    pub(crate) out_trade_no: MerchantNo,
    /// The merchant's refund number.
    pub(crate) out_refund_no: MerchantNo,
    /// The state.
    pub(crate) refund_status: RefundStatus,
    /// What this one refund gives back.
    pub(crate) refund: Cents,
}

/// The fields that the story reads. WeChat Pay adds fields without notice, so others are let through.
#[derive(Deserialize)]
struct Envelope {
    id: String,
    event_type: String,
    resource: serde_json::Value,
}

#[derive(Deserialize)]
struct TransactionResource {
    mchid: String,
    out_trade_no: String,
    trade_state: TradeState,
    amount: TransactionAmount,
}

#[derive(Deserialize)]
struct TransactionAmount {
    total: i64,
    currency: String,
}

#[derive(Deserialize)]
struct RefundResource {
    mchid: String,
    out_trade_no: String,
    out_refund_no: String,
    refund_status: RefundStatus,
    amount: RefundAmount,
}

#[derive(Deserialize)]
struct RefundAmount {
    total: i64,
    refund: i64,
}

/// Reads a notification.
pub(crate) fn parse(body: &str) -> Result<Notification, BadNotification> {
    let envelope: Envelope = serde_json::from_str(body)?;
    if envelope.resource.get("ciphertext").is_some() {
        return Err(BadNotification::Encrypted);
    }
    let id = printable("id", envelope.id)?;
    match envelope.event_type.as_str() {
        "TRANSACTION.SUCCESS" => {
            let resource: TransactionResource = serde_json::from_value(envelope.resource)?;
            if resource.amount.currency != "CNY" {
                return Err(BadNotification::Field {
                    field: "amount.currency",
                    text: resource.amount.currency,
                    expected: "CNY",
                });
            }
            Ok(Notification::WechatTransaction(Transaction {
                id,
                merchant: merchant(resource.mchid)?,
                out_trade_no: merchant_no("out_trade_no", resource.out_trade_no)?,
                trade_state: resource.trade_state,
                total: cents("amount.total", resource.amount.total)?,
            }))
        }
        "REFUND.SUCCESS" | "REFUND.ABNORMAL" | "REFUND.CLOSED" => {
            let resource: RefundResource = serde_json::from_value(envelope.resource)?;
            if resource.amount.refund > resource.amount.total {
                let text = resource.amount.refund.to_string();
                return Err(BadNotification::Field {
                    field: "amount.refund",
                    text,
                    expected: "no more than amount.total",
                });
            }
            Ok(Notification::WechatRefund(Refund {
                id,
                merchant: merchant(resource.mchid)?,
                out_trade_no: merchant_no("out_trade_no", resource.out_trade_no)?,
                out_refund_no: merchant_no("out_refund_no", resource.out_refund_no)?,
                refund_status: resource.refund_status,
                refund: cents("amount.refund", resource.amount.refund)?,
            }))
        }
        _ => Err(BadNotification::Field {
            field: "event_type",
            text: envelope.event_type,
            expected: "TRANSACTION.SUCCESS or REFUND.SUCCESS, REFUND.ABNORMAL, REFUND.CLOSED",
        }),
    }
}

fn printable(field: &'static str, text: String) -> Result<String, BadNotification> {
    let fine = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fine { Ok(text) } else { Err(BadNotification::Field { field, text, expected: "printable ASCII" }) }
}

fn merchant(mchid: String) -> Result<Merchant, BadNotification> {
    Ok(Merchant { channel: "WeChat", id: printable("mchid", mchid)? })
}

fn merchant_no(field: &'static str, text: String) -> Result<MerchantNo, BadNotification> {
    MerchantNo::new(text.clone()).ok_or(BadNotification::Field {
        field,
        text,
        expected: "1 to 64 letters, digits or _-|*@",
    })
}

fn cents(field: &'static str, amount: i64) -> Result<Cents, BadNotification> {
    if amount < 0 {
        return Err(BadNotification::Field { field, text: amount.to_string(), expected: "no negative amount" });
    }
    Ok(Cents::new(amount))
}

#[cfg(test)]
mod tests {
    use super::{Notification, Refund, RefundStatus, TradeState, Transaction, parse};
    use crate::{
        money::Cents,
        payment::{error::BadNotification, notification::Fact},
    };

    const TRANSACTION: &str = r#"{"id":"EV-1","create_time":"2026-11-01T11:20:06+08:00","event_type":"TRANSACTION.SUCCESS",
        "resource":{"mchid":"1900","out_trade_no":"W1","trade_state":"SUCCESS","amount":{"total":12800,"currency":"CNY"}}}"#;
    const REFUND: &str = r#"{"id":"EV-2","event_type":"REFUND.SUCCESS","resource":{"mchid":"1900","out_trade_no":"W1",
        "out_refund_no":"R1","refund_status":"SUCCESS","amount":{"total":12800,"refund":2800}}}"#;

    #[test]
    fn a_transaction_and_its_refund_are_told_apart() {
        let transaction = parse(TRANSACTION).unwrap();
        assert_eq!(transaction.key(), "W1:SUCCESS");
        assert_eq!(transaction.fact(), Fact::Paid(Cents::new(12800)));
        let Notification::WechatTransaction(Transaction { id, trade_state: TradeState::Success, .. }) = transaction
        else {
            panic!("{transaction:?}")
        };
        assert_eq!(id, "EV-1");
        let refund = parse(REFUND).unwrap();
        assert_eq!(refund.key(), "W1:'REFUND':R1:SUCCESS");
        let Notification::WechatRefund(Refund { refund, refund_status: RefundStatus::Success, .. }) = refund else {
            panic!("{refund:?}")
        };
        assert_eq!(refund, Cents::new(2800));
    }

    #[test]
    fn a_refund_that_is_not_through_moves_no_money() {
        for status in ["ABNORMAL", "CLOSED"] {
            let refund = parse(&REFUND.replace("SUCCESS", status)).unwrap();
            assert_eq!(refund.fact(), Fact::NoMoney);
            assert_eq!(refund.key(), format!("W1:'REFUND':R1:{status}"), "it must not use up the key of the success");
        }
    }

    #[test]
    fn an_encrypted_resource_is_named() {
        let encrypted = r#"{"id":"EV-3","event_type":"REFUND.SUCCESS","resource":{"algorithm":"AEAD_AES_256_GCM","ciphertext":"x"}}"#;
        assert!(matches!(parse(encrypted), Err(BadNotification::Encrypted)));
    }

    #[test]
    fn malformed_notifications_are_refused_by_name() {
        for (text, from, to, says) in [
            (
                TRANSACTION,
                "12800",
                "128.00",
                "not a WeChat Pay notification: invalid type: floating point `128.0`, expected i64",
            ),
            (
                TRANSACTION,
                "12800",
                "\"12800\"",
                "not a WeChat Pay notification: invalid type: string \"12800\", expected i64",
            ),
            (TRANSACTION, "12800", "-1", "`amount.total` is \"-1\", expected no negative amount"),
            (TRANSACTION, "\"CNY\"", "\"USD\"", "`amount.currency` is \"USD\", expected CNY"),
            (TRANSACTION, "mchid", "sp_mchid", "not a WeChat Pay notification: missing field `mchid`"),
            (TRANSACTION, "\"1900\"", "\"\"", "`mchid` is \"\", expected printable ASCII"),
            (
                TRANSACTION,
                "\"W1\"",
                "\"订单\"",
                "`out_trade_no` is \"订单\", expected 1 to 64 letters, digits or _-|*@",
            ),
            (TRANSACTION, "\"EV-1\"", "\"\"", "`id` is \"\", expected printable ASCII"),
            (REFUND, "\"R1\"", "\"\"", "`out_refund_no` is \"\", expected 1 to 64 letters, digits or _-|*@"),
            (REFUND, "2800}", "12801}", "`amount.refund` is \"12801\", expected no more than amount.total"),
            (REFUND, "\"out_refund_no\":\"R1\",", "", "not a WeChat Pay notification: missing field `out_refund_no`"),
            (
                REFUND,
                "REFUND.SUCCESS",
                "COUPON.USE",
                "`event_type` is \"COUPON.USE\", expected TRANSACTION.SUCCESS or REFUND.SUCCESS, REFUND.ABNORMAL, REFUND.CLOSED",
            ),
        ] {
            assert_eq!(parse(&text.replace(from, to)).unwrap_err().to_string(), says);
        }
        for text in ["", "null", "[]", "out_trade_no=T1", &TRANSACTION[..40]] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.starts_with("not a WeChat Pay notification: "), "{text:?}: {said}");
        }
    }
}
