//! The story of the double deduction, on a real RabbitMQ: `cargo test -p idem-examples --features brokers -- --ignored`.

use crate::{
    guide::{blocks, page},
    run::{Run, changed_data, fails_without_idem, is_repeatable},
};

#[tokio::test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
async fn a_lost_ack_takes_the_money_once() {
    let run = Run::kept("double-deduction");
    let balances = "SELECT name, cents FROM accounts ORDER BY name";
    let deductions = "SELECT order_no, COUNT(*), SUM(cents) FROM deductions GROUP BY order_no ORDER BY order_no";
    assert_eq!(run.rows("with-idem.db", balances).await, ["li 7000", "wang 3750"]);
    assert_eq!(run.rows("with-idem.db", deductions).await, ["SO9001 1 3000", "SO9002 1 1250"]);
    let records = "SELECT scope, action_key FROM idem_records ORDER BY action_key";
    assert_eq!(run.rows("with-idem.db", records).await, ["account.deduct SO9001", "account.deduct SO9002"]);
    assert_eq!(run.rows("without-idem.db", balances).await, ["li 4000", "wang 2500"]);
    assert_eq!(run.rows("without-idem.db", deductions).await, ["SO9001 2 6000", "SO9002 2 2500"]);
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn every_delivery_reached_a_handler() {
    let run = Run::new(&["double-deduction"]);
    assert_eq!(run.with_idem("redelivered"), ["first, duplicate: 70.00"]);
    assert_eq!(run.without("redelivered"), ["done, done: 40.00"]);
    assert_eq!(run.with_idem("at once"), ["first, duplicate: 37.50"]);
    assert_eq!(run.without("at once"), ["done, done: 25.00"]);
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn the_check_can_fail() {
    fails_without_idem("double-deduction");
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn what_is_right_comes_from_the_data() {
    let data = changed_data("double-deduction", "1-ack-lost.jsonl", "3000", "2500");
    let run = Run::new(&["double-deduction", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    let line = run.stdout().lines().find(|line| line.starts_with("   li ")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["li", "75.00", "75.00", "50.00"]);
}

#[test]
#[ignore = "needs RabbitMQ: ./scripts/test runs it"]
fn it_is_repeatable_and_its_page_shows_it() {
    is_repeatable_and_shown("double-deduction");
}

/// Two runs print the same, and what the page shows of it.
pub(crate) fn is_repeatable_and_shown(story: &str) {
    is_repeatable(story);
    let run = Run::new(&[story]);
    let printed: Vec<&str> = run.stdout().lines().map(str::trim_end).collect();
    let shown = blocks(&page(story), "text");
    assert!(!shown.is_empty());
    for line in shown.iter().flat_map(|block| block.lines()) {
        assert!(printed.contains(&line.trim_end()), "{story} does not print\n{line}\n{}", run.stdout());
    }
}

#[test]
fn a_missing_broker_is_named_with_what_to_start() {
    let run = Run::with_env(&["double-deduction"], &[("IDEM_TEST_RABBITMQ", "127.0.0.1:1")]);
    assert_eq!(run.status(), Some(2), "{}", run.stdout());
    assert!(run.stderr().starts_with("error: no RabbitMQ answers at 127.0.0.1:1 ("), "{}", run.stderr());
    assert!(run.stderr().contains("docker compose up -d rabbitmq"), "{}", run.stderr());
    assert_eq!(run.left_behind(), Vec::<std::path::PathBuf>::new());
}
