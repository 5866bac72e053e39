//! Alipay's asynchronous notifications: form-encoded request bodies.
//!
//! One URL receives all of them. A refund is no state of its own: after a partial refund the notification says
//! `TRADE_SUCCESS` like the payment before it and differs by `refund_fee`, `gmt_refund` and `out_biz_no`. So a refund's
//! key needs the refund's number.
//!
//! A real endpoint verifies `sign` before anything else; the signatures in the sample files are made up.

use super::{
    error::BadNotification,
    notification::{Merchant, MerchantNo, Notification},
};
use crate::money::Cents;
use idem_runtime::KeyPart;
use serde::Deserialize;
use std::fmt;

/// The state of a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KeyPart)]
pub(crate) enum TradeStatus {
    /// The buyer has not paid yet.
    #[key_part(text = "WAIT_BUYER_PAY")]
    WaitBuyerPay,
    /// Paid, or not paid in time, or refunded in full.
    #[key_part(text = "TRADE_CLOSED")]
    Closed,
    /// Paid; can still be refunded.
    #[key_part(text = "TRADE_SUCCESS")]
    Success,
    /// The time for refunds is over. The money came with `TRADE_SUCCESS`.
    #[key_part(text = "TRADE_FINISHED")]
    Finished,
}

impl TradeStatus {
    /// The platform's word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::WaitBuyerPay => "WAIT_BUYER_PAY",
            Self::Closed => "TRADE_CLOSED",
            Self::Success => "TRADE_SUCCESS",
            Self::Finished => "TRADE_FINISHED",
        }
    }

    fn parse(text: String) -> Result<Self, BadNotification> {
        [Self::WaitBuyerPay, Self::Closed, Self::Success, Self::Finished]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or(BadNotification::Field { field: "trade_status", text, expected: "a trade status" })
    }
}

impl fmt::Display for TradeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A trade has a new state.
#[expect(clippy::struct_field_names, reason = "the platform's own names")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trade {
    /// The notification: the same when it is retried, another when it is sent anew.
    pub(crate) notify_id: String,
    /// Who is paid.
    pub(crate) seller: Merchant,
    /// The merchant's order number.
    pub(crate) out_trade_no: MerchantNo,
    /// The state.
    pub(crate) trade_status: TradeStatus,
    /// What the order costs.
    pub(crate) total_amount: Cents,
}

/// Money of a trade was given back.
#[expect(clippy::struct_field_names, reason = "the platform's own names")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refund {
    /// The notification: the same when it is retried, another when it is sent anew.
    pub(crate) notify_id: String,
    /// Who pays back.
    pub(crate) seller: Merchant,
    /// The merchant's order number.
    pub(crate) out_trade_no: MerchantNo,
    /// The merchant's refund number.
    pub(crate) out_biz_no: MerchantNo,
    /// `TRADE_SUCCESS` after a part, `TRADE_CLOSED` after all of it.
    pub(crate) trade_status: TradeStatus,
    /// What was given back so far, **over all refunds** of the trade.
    pub(crate) refund_fee: Cents,
}

/// The fields that the story reads. Alipay adds fields without notice, so others are let through.
#[derive(Deserialize)]
struct Form {
    charset: String,
    notify_id: String,
    notify_type: String,
    out_trade_no: String,
    trade_status: String,
    total_amount: String,
    seller_id: String,
    out_biz_no: Option<String>,
    refund_fee: Option<String>,
    gmt_refund: Option<String>,
}

/// Reads a request body.
pub(crate) fn parse(body: &str) -> Result<Notification, BadNotification> {
    let form: Form = serde_urlencoded::from_str(body)?;
    if !form.charset.eq_ignore_ascii_case("utf-8") {
        return Err(BadNotification::Field { field: "charset", text: form.charset, expected: "utf-8" });
    }
    if form.notify_type != "trade_status_sync" {
        return Err(BadNotification::Field {
            field: "notify_type",
            text: form.notify_type,
            expected: "trade_status_sync",
        });
    }
    let notify_id = present("notify_id", form.notify_id)?;
    let seller = Merchant { channel: "Alipay", id: present("seller_id", form.seller_id)? };
    let out_trade_no = merchant_no("out_trade_no", form.out_trade_no)?;
    let trade_status = TradeStatus::parse(form.trade_status)?;
    let total_amount = yuan("total_amount", form.total_amount)?;
    match (form.refund_fee, form.gmt_refund) {
        (None, None) => {
            Ok(Notification::AlipayTrade(Trade { notify_id, seller, out_trade_no, trade_status, total_amount }))
        }
        (None, Some(_)) => Err(BadNotification::Missing { missing: "refund_fee", because_of: "gmt_refund" }),
        (Some(text), _) => {
            let refund_fee = yuan("refund_fee", text.clone())?;
            if refund_fee > total_amount {
                return Err(BadNotification::Field {
                    field: "refund_fee",
                    text,
                    expected: "no more than total_amount",
                });
            }
            let out_biz_no =
                form.out_biz_no.ok_or(BadNotification::Missing { missing: "out_biz_no", because_of: "refund_fee" })?;
            let out_biz_no = merchant_no("out_biz_no", out_biz_no)?;
            Ok(Notification::AlipayRefund(Refund {
                notify_id,
                seller,
                out_trade_no,
                out_biz_no,
                trade_status,
                refund_fee,
            }))
        }
    }
}

fn present(field: &'static str, text: String) -> Result<String, BadNotification> {
    let ascii = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if ascii { Ok(text) } else { Err(BadNotification::Field { field, text, expected: "letters and digits" }) }
}

fn merchant_no(field: &'static str, text: String) -> Result<MerchantNo, BadNotification> {
    MerchantNo::new(text.clone()).ok_or(BadNotification::Field {
        field,
        text,
        expected: "1 to 64 letters, digits or _-|*@",
    })
}

fn yuan(field: &'static str, text: String) -> Result<Cents, BadNotification> {
    Cents::from_yuan(&text).map_err(|source| BadNotification::Amount { field, text, source })
}

#[cfg(test)]
mod tests {
    use super::{BadNotification, Notification, Refund, Trade, TradeStatus, parse};
    use crate::{money::Cents, payment::notification::Merchant};

    const TRADE: &str = "charset=utf-8&notify_id=N1&notify_type=trade_status_sync&out_trade_no=T1&trade_status=TRADE_SUCCESS\
        &total_amount=19.90&seller_id=2088";
    const REFUND: &str = "charset=UTF-8&notify_id=N2&notify_type=trade_status_sync&out_trade_no=T1&trade_status=TRADE_SUCCESS\
        &total_amount=19.90&seller_id=2088&refund_fee=5.00&out_biz_no=R1&gmt_refund=2026-11-02+09%3A30%3A00.143";

    fn seller() -> Merchant {
        Merchant { channel: "Alipay", id: "2088".into() }
    }

    #[test]
    fn a_trade_and_its_refund_are_told_apart() {
        let trade = parse(TRADE).unwrap();
        let out_trade_no = match &trade {
            Notification::AlipayTrade(trade) => trade.out_trade_no.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(out_trade_no.as_str(), "T1");
        assert_eq!(
            trade,
            Notification::AlipayTrade(Trade {
                notify_id: "N1".into(),
                seller: seller(),
                out_trade_no: out_trade_no.clone(),
                trade_status: TradeStatus::Success,
                total_amount: Cents::new(1990),
            })
        );
        assert_eq!(trade.key(), "T1:TRADE_SUCCESS");
        let refund = parse(REFUND).unwrap();
        let Notification::AlipayRefund(Refund { refund_fee, out_biz_no, .. }) = &refund else { panic!("{refund:?}") };
        assert_eq!((*refund_fee, out_biz_no.as_str()), (Cents::new(500), "R1"));
        assert_eq!(
            refund.key(),
            "T1:'REFUND':R1",
            "the state is that of the payment, so the number has to tell them apart"
        );
    }

    #[test]
    fn unknown_fields_are_let_through() {
        let more = format!("{TRADE}&buyer_open_id=x&a_field_of_next_year=y&subject=%E6%98%A5%E8%8C%B6+%26+more");
        assert_eq!(parse(&more).unwrap(), parse(TRADE).unwrap());
    }

    #[test]
    fn malformed_bodies_are_refused_by_name() {
        let refused = |body: &str| parse(body).unwrap_err().to_string();
        assert_eq!(refused(""), "not an Alipay notification: missing field `charset`");
        assert_eq!(refused("{\"out_trade_no\":\"T1\"}"), "not an Alipay notification: missing field `charset`");
        for field in
            ["charset", "notify_id", "notify_type", "out_trade_no", "trade_status", "total_amount", "seller_id"]
        {
            let without = TRADE.split('&').filter(|pair| !pair.starts_with(field)).collect::<Vec<_>>().join("&");
            assert_eq!(refused(&without), format!("not an Alipay notification: missing field `{field}`"));
        }
        assert_eq!(
            refused(&format!("{TRADE}&total_amount=0.01")),
            "not an Alipay notification: duplicate field `total_amount`"
        );
        for (from, to, says) in [
            (
                "=19.90",
                "=19.9x",
                "`total_amount` is \"19.9x\": an amount is digits with at most two decimals, such as 88.88",
            ),
            (
                "=19.90",
                "=-19.90",
                "`total_amount` is \"-19.90\": an amount is digits with at most two decimals, such as 88.88",
            ),
            ("=19.90", "=99999999999999999999", "`total_amount` is \"99999999999999999999\": the amount is too large"),
            ("=T1", "=", "`out_trade_no` is \"\", expected 1 to 64 letters, digits or _-|*@"),
            ("=T1", "=T%FF1", "`out_trade_no` is \"T\u{fffd}1\", expected 1 to 64 letters, digits or _-|*@"),
            ("=N1", "=", "`notify_id` is \"\", expected letters and digits"),
            ("=2088", "=", "`seller_id` is \"\", expected letters and digits"),
            ("=utf-8", "=gbk", "`charset` is \"gbk\", expected utf-8"),
            (
                "trade_status_sync",
                "batch_refund_notify",
                "`notify_type` is \"batch_refund_notify\", expected trade_status_sync",
            ),
            ("=TRADE_SUCCESS", "=PAID", "`trade_status` is \"PAID\", expected a trade status"),
        ] {
            assert_eq!(refused(&TRADE.replace(from, to)), says);
        }
    }

    #[test]
    fn malformed_refunds_are_refused_by_name() {
        let refused = |from: &str, to: &str| parse(&REFUND.replace(from, to)).unwrap_err().to_string();
        assert_eq!(refused("&out_biz_no=R1", ""), "a notification with `refund_fee` must have `out_biz_no`");
        assert_eq!(refused("&refund_fee=5.00", ""), "a notification with `gmt_refund` must have `refund_fee`");
        assert_eq!(refused("=5.00", "=19.91"), "`refund_fee` is \"19.91\", expected no more than total_amount");
        assert_eq!(refused("=R1", "=+"), "`out_biz_no` is \" \", expected 1 to 64 letters, digits or _-|*@");
        assert!(matches!(
            parse(&REFUND.replace("=5.00", "=5,00")),
            Err(BadNotification::Amount { field: "refund_fee", .. })
        ));
    }
}
