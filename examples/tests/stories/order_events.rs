//! The story of events out of order.

use crate::run::{Run, changed_data, fails_without_idem, is_repeatable};

const ORDERS: &str = "SELECT order_no, status, address FROM orders ORDER BY order_no";

#[tokio::test]
async fn orders_end_where_their_last_event_left_them() {
    let run = Run::kept("order-events");
    let right = ["SO6001 PAID ", "SO6002 PAID ", "SO6003 PAID 8 New Road"];
    assert_eq!(run.rows("with-idem.db", ORDERS).await, right);
    let wrong = ["SO6001 NEW ", "SO6002 WAIT_PAY ", "SO6003 PAID 5 Oak Street"];
    assert_eq!(run.rows("without-idem.db", ORDERS).await, wrong);
    // What was ignored or declined left no record; the payment's is that of the delivery that ran.
    let records = "SELECT scope, action_key FROM idem_records ORDER BY scope, action_key";
    let claimed = [
        "order.address SO6003:'v'7",
        "order.address SO6003:'v'8",
        "order.created SO6001",
        "order.created SO6002",
        "order.created SO6003",
        "order.paid SO6001",
        "order.paid SO6002",
        "order.paid SO6003",
    ];
    assert_eq!(run.rows("with-idem.db", records).await, claimed);
}

#[test]
fn the_acts_show_what_they_are_about() {
    let run = Run::new(&["order-events"]);
    let with = |offset: u32| run.with_idem(&format!("offset {offset}")).join(", then ");
    assert_eq!(with(301), "ignored: the order is not here yet, then first: PAID");
    assert_eq!(with(303), "duplicate");
    assert_eq!(with(306), "duplicate");
    for stale in [307, 310, 313, 316] {
        assert!(with(stale).starts_with("ignored: "), "{stale}: {}", with(stale));
    }
    assert_eq!(
        (with(312), with(314), with(315)),
        ("first: 7 Mill Lane".into(), "duplicate".into(), "first: 8 New Road".into())
    );
}

#[test]
fn the_check_can_fail() {
    fails_without_idem("order-events");
}

#[test]
fn an_order_that_never_comes_is_noticed() {
    let data =
        changed_data("order-events", "1-paid-before-created.jsonl", "\"event\":\"CREATED\"", "\"event\":\"WAIT_PAY\"");
    let run = Run::new(&["order-events", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(1), ""));
    let tries = run.with_idem("offset 301");
    assert_eq!(tries, vec!["ignored: the order is not here yet"; 5], "the broker gives up");
}

#[test]
fn it_is_repeatable() {
    is_repeatable("order-events");
}
