//! The story of an order that is submitted twice over HTTP.

use crate::run::{Run, changed_data, fails_without_idem, is_repeatable};

#[tokio::test]
async fn a_submission_places_one_order() {
    let run = Run::kept("order-submit");
    let orders = "SELECT id, article, quantity FROM orders ORDER BY id";
    let placed = ["1 TEE-M 1", "2 MUG 2", "3 CAP 4", "4 MUG 2", "5 TEE-L 8"];
    assert_eq!(run.rows("with-idem.db", orders).await, placed);
    assert_eq!(run.rows("without-idem.db", "SELECT COUNT(*), SUM(quantity) FROM orders").await, ["9 33"]);
    let kept = "SELECT scope, action_key, CAST(result AS TEXT) FROM idem_records ORDER BY result";
    let kept = run.rows("with-idem.db", kept).await;
    assert_eq!(kept.len(), 5);
    let first = "order.submit POST:/orders:customer-7:8e03978e-40d5-43dd-bc93-6894a57f9324 ";
    assert!(kept[0].starts_with(first) && kept[0].ends_with("\n{\"order_no\":\"SO7001\"}"), "{}", kept[0]);
    assert!(kept[4].starts_with("order.form token:") && kept[4].contains("SO7005"), "{}", kept[4]);
}

#[test]
fn the_acts_show_what_they_are_about() {
    let run = Run::new(&["order-submit"]);
    assert_eq!(run.with_idem("2 x POST"), ["201 SO7001; 201 SO7001, replayed", "201 SO7005; 201 SO7005, replayed"]);
    assert_eq!(run.without("2 x POST"), ["201 SO7001; 201 SO7002", "201 SO7008; 201 SO7009"]);
    for (what, answer) in [
        ("nobody reads the answer", "201 SO7002"),
        ("the same request again", "201 SO7002, replayed"),
        ("4 pieces", "201 SO7003"),
        ("5 pieces", "422 payload-mismatch"),
        ("MUG", "201 SO7004"),
    ] {
        assert_eq!(run.with_idem(&format!("POST        {what}")), [answer], "{what}");
    }
}

#[test]
fn the_check_can_fail() {
    fails_without_idem("order-submit");
}

/// Another quantity in the files is another number of pieces in the databases.
#[test]
fn what_is_right_comes_from_the_data() {
    let data = changed_data("order-submit", "4-ordered-again.jsonl", "\"quantity\":2", "\"quantity\":3");
    let run = Run::new(&["order-submit", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""));
    let line = run.stdout().lines().find(|line| line.starts_with("   pieces in them ")).unwrap();
    assert_eq!(line.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["18", "18"]);
}

#[test]
fn a_request_without_a_usable_key_places_no_order() {
    let key = "d9bc2a6f-0f0e-4d5b-9a7e-0c5a4f6f1b21";
    let data = changed_data("order-submit", "2-answer-lost.jsonl", key, "");
    let run = Run::new(&["order-submit", "--data", data.path().to_str().unwrap()]);
    assert_eq!(run.status(), Some(1), "{}", run.stdout());
    assert_eq!(run.with_idem("POST        nobody reads the answer"), ["400 key-malformed"]);
    assert!(run.stdout().contains("orders: 4, and 5 is right"), "{}", run.stdout());
}

#[test]
fn it_is_repeatable() {
    is_repeatable("order-submit");
}
