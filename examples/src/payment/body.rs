//! What each notification does to the books. Nothing in here knows of repeats: the same bodies run with idem and
//! without.

use super::{
    alipay::{self, TradeStatus},
    error::PayError,
    ledger::{self, Movement},
    trouble::Trouble,
    wechat::{self, RefundStatus, TradeState},
};
use crate::money::Cents;
use sqlx::SqliteConnection;

/// Books a trade. Only `TRADE_SUCCESS` brings money: `TRADE_FINISHED` says of the same money that it stays.
pub(crate) async fn alipay_trade(
    db: &mut SqliteConnection,
    msg: &alipay::Trade,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    match msg.trade_status {
        TradeStatus::Success => {
            let movement = Movement { merchant: &msg.seller, order: &msg.out_trade_no, cause: "payment" };
            ledger::pay(db, movement, msg.total_amount, trouble).await
        }
        status @ (TradeStatus::WaitBuyerPay | TradeStatus::Closed | TradeStatus::Finished) => {
            ledger::note(db, &msg.out_trade_no, status.as_str(), trouble).await
        }
    }
}

/// Books a refund. Alipay says what was given back over all refunds of the trade, so this one is the difference.
pub(crate) async fn alipay_refund(
    db: &mut SqliteConnection,
    msg: &alipay::Refund,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    let before = ledger::refunded(db, &msg.out_trade_no).await?;
    let Some(part) = msg.refund_fee.minus(before).filter(|part| *part > Cents::ZERO) else {
        // A later refund came first and already told the sum.
        return ledger::note(db, &msg.out_trade_no, "REFUNDED", trouble).await;
    };
    let movement = Movement { merchant: &msg.seller, order: &msg.out_trade_no, cause: msg.out_biz_no.as_str() };
    ledger::give_back(db, movement, part, trouble).await
}

/// Books a transaction.
pub(crate) async fn wechat_transaction(
    db: &mut SqliteConnection,
    msg: &wechat::Transaction,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    match msg.trade_state {
        TradeState::Success => {
            let movement = Movement { merchant: &msg.merchant, order: &msg.out_trade_no, cause: "payment" };
            ledger::pay(db, movement, msg.total, trouble).await
        }
        state => ledger::note(db, &msg.out_trade_no, state.as_str(), trouble).await,
    }
}

/// Books a refund. WeChat Pay says what this one refund gave back.
pub(crate) async fn wechat_refund(
    db: &mut SqliteConnection,
    msg: &wechat::Refund,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    match msg.refund_status {
        RefundStatus::Success => {
            let movement =
                Movement { merchant: &msg.merchant, order: &msg.out_trade_no, cause: msg.out_refund_no.as_str() };
            ledger::give_back(db, movement, msg.refund, trouble).await
        }
        status => ledger::note(db, &msg.out_trade_no, status.as_str(), trouble).await,
    }
}

#[cfg(test)]
mod tests {
    use super::{alipay_refund, alipay_trade, wechat_refund};
    use crate::{
        money::Cents,
        payment::{alipay, ledger, notification::Notification, trouble::Trouble, wechat},
    };

    fn refund(no: &str, sum: &str) -> alipay::Refund {
        let body = format!(
            "charset=utf-8&notify_id=N{no}&notify_type=trade_status_sync&out_trade_no=T1&trade_status=TRADE_SUCCESS\
             &total_amount=100.00&seller_id=2088&refund_fee={sum}&out_biz_no={no}&gmt_refund=2026-11-02+09%3A30%3A00.143"
        );
        match alipay::parse(&body).unwrap() {
            Notification::AlipayRefund(refund) => refund,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn refunds_that_overtake_each_other_add_up() {
        for (order, booked) in [(["R1", "R2", "R3"], [-2000, -3000, -100]), (["R3", "R1", "R2"], [-5100, 0, 0])] {
            let folder = tempfile::tempdir().unwrap();
            let pool = ledger::open(&folder.path().join("ledger.db")).await.unwrap();
            let mut db = pool.acquire().await.unwrap();
            for (no, booked) in order.into_iter().zip(booked) {
                let sum = match no {
                    "R1" => "20.00",
                    "R2" => "50.00",
                    _ => "51.00",
                };
                assert_eq!(alipay_refund(&mut db, &refund(no, sum), &Trouble::None).await.unwrap(), Cents::new(booked));
            }
            drop(db);
            let books = ledger::books(&pool).await.unwrap();
            assert_eq!(books.into_values().map(|books| books.balance).collect::<Vec<_>>(), [Cents::new(-5100)]);
        }
    }

    #[tokio::test]
    async fn states_without_money_book_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let pool = ledger::open(&folder.path().join("ledger.db")).await.unwrap();
        let mut db = pool.acquire().await.unwrap();
        for status in ["WAIT_BUYER_PAY", "TRADE_CLOSED", "TRADE_FINISHED"] {
            let body = format!(
                "charset=utf-8&notify_id=N1&notify_type=trade_status_sync&out_trade_no=T1&trade_status={status}\
                 &total_amount=100.00&seller_id=2088"
            );
            let Notification::AlipayTrade(trade) = alipay::parse(&body).unwrap() else { panic!("{body}") };
            assert_eq!(alipay_trade(&mut db, &trade, &Trouble::None).await.unwrap(), Cents::ZERO);
        }
        for status in ["ABNORMAL", "CLOSED"] {
            let body = format!(
                r#"{{"id":"EV-2","event_type":"REFUND.{status}","resource":{{"mchid":"1900","out_trade_no":"W1",
                "out_refund_no":"R1","refund_status":"{status}","amount":{{"total":12800,"refund":2800}}}}}}"#
            );
            let Notification::WechatRefund(refund) = wechat::parse(&body).unwrap() else { panic!("{body}") };
            assert_eq!(wechat_refund(&mut db, &refund, &Trouble::None).await.unwrap(), Cents::ZERO);
        }
        drop(db);
        assert!(ledger::books(&pool).await.unwrap().is_empty());
    }
}
