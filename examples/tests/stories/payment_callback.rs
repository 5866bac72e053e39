//! The story of a callback that goes through a queue, on a real RabbitMQ.

use crate::{
    double_deduction::is_repeatable_and_shown,
    run::{Run, changed_data, fails_without_idem},
};

#[tokio::test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
async fn a_payment_is_credited_once() {
    let run = Run::kept("payment-callback");
    let credits = "SELECT out_trade_no, COUNT(*), SUM(cents) FROM credits GROUP BY out_trade_no ORDER BY out_trade_no";
    assert_eq!(run.rows("with-idem.db", credits).await, ["TEA2001 1 8888", "TEA2002 1 2050"]);
    assert_eq!(run.rows("without-idem.db", credits).await, ["TEA2001 2 17776"]);
    let records = "SELECT scope, action_key FROM idem_records ORDER BY action_key";
    assert_eq!(run.rows("with-idem.db", records).await, ["payment.credit TEA2001", "payment.credit TEA2002"]);
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn the_platform_is_told_yes_only_when_the_message_is_in_the_queue() {
    let run = Run::new(&["payment-callback"]);
    assert_eq!(run.with_idem("callback"), ["200", "200", "503", "200"]);
    assert_eq!(run.without("callback"), ["200", "200", "200", "no call"]);
    assert_eq!(run.with_idem("consumer"), ["first, duplicate", "first"]);
    assert_eq!(run.without("consumer"), ["done, done", "nothing in the queue"]);
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn the_check_can_fail() {
    fails_without_idem("payment-callback");
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn what_is_right_comes_from_the_data() {
    let data = changed_data("payment-callback", "2-paid.form", "total_amount=20.50", "total_amount=30.50");
    let again = data.path().join("2-paid-sent-again.form");
    let text = std::fs::read_to_string(&again).unwrap().replace("total_amount=20.50", "total_amount=30.50");
    std::fs::write(again, text).unwrap();
    let run = Run::new(&["payment-callback", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    let line = run.stdout().lines().find(|line| line.starts_with("   TEA2002  ")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["TEA2002", "30.50", "30.50", "0.00"]);
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn it_is_repeatable_and_its_page_shows_it() {
    is_repeatable_and_shown("payment-callback");
}

#[test]
fn what_is_no_callback_is_named() {
    let data = changed_data("payment-callback", "1-paid.form", "TRADE_SUCCESS", "TRADE_CLOSED");
    let run = Run::new(&["payment-callback", "--data", data.path().to_str().unwrap()]);
    assert_eq!(run.status(), Some(2), "{}", run.stdout());
    assert!(run.stderr().contains("1-paid.form: no callback of a paid order"), "{}", run.stderr());
}
