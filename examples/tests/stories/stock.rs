//! The stock story.

use crate::run::{Run, changed_data, fails_without_idem, is_repeatable};

/// Worked out by hand, as in the data folder's README.
const RIGHT: [&str; 4] = ["CAP 8", "MUG 4", "TEE-L 19", "TEE-M 36"];
const STOCK: &str = "SELECT sku, count FROM stock ORDER BY sku";

#[tokio::test]
async fn each_line_takes_once() {
    let run = Run::kept("stock");
    assert_eq!(run.rows("with-idem.db", STOCK).await, RIGHT);
    let without = run.rows("without-idem.db", STOCK).await;
    assert!(without.iter().zip(RIGHT).all(|(without, right)| without != right), "{without:?}");
    // The flow and the stock are one unit.
    let flow = "SELECT sku, SUM(change) FROM stock_flow GROUP BY sku ORDER BY sku";
    assert_eq!(run.rows("with-idem.db", flow).await, ["CAP 5", "MUG -2", "TEE-L -1", "TEE-M -4"]);
    let records = "SELECT scope, action_key FROM idem_records ORDER BY scope, action_key";
    let claimed = [
        "stock.deduct SO1001:1",
        "stock.deduct SO1001:2",
        "stock.deduct SO1002:1",
        "stock.deduct SO1002:2",
        "stock.deduct SO1003:1",
        "stock.deduct SO1004:1",
        "stock.receive GR3001",
        "stock.return RT2001",
    ];
    assert_eq!(run.rows("with-idem.db", records).await, claimed);
    // The key without the line loses the second size.
    assert_eq!(run.rows("too-short.db", STOCK).await, ["CAP 3", "MUG 6", "TEE-L 20", "TEE-M 38"]);
}

#[test]
fn the_acts_show_what_they_are_about() {
    let run = Run::new(&["stock"]);
    let with = |offset: u32| run.with_idem(&format!("offset {offset}")).remove(0);
    for first in [102, 103, 104, 111, 112, 115] {
        assert!(with(first).starts_with("first: "), "{first}: {}", with(first));
    }
    for repeat in [105, 106, 107, 113, 114, 116, 117] {
        assert_eq!(with(repeat), "duplicate", "{repeat}");
        assert!(run.without(&format!("offset {repeat}"))[0].starts_with("done: "), "{repeat}");
    }
    assert_eq!(with(108), "1 first, 7 duplicate");
    assert_eq!((with(109), with(110)), ("failed: out of stock".into(), "failed: out of stock".into()));
    assert_eq!(with(118), "failed: other payload than the first time");
    // The second time in the act of the key that is too short.
    assert_eq!(run.with_idem("offset 102"), ["first: 19 left", "duplicate"]);
}

#[test]
fn the_check_can_fail() {
    fails_without_idem("stock");
}

#[test]
fn what_is_right_comes_from_the_data() {
    let data = changed_data("stock", "2-at-once.jsonl", "\"quantity\":3", "\"quantity\":4");
    let run = Run::new(&["stock", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""));
    let line = run.stdout().lines().find(|line| line.starts_with("   TEE-M   ")).unwrap();
    assert_eq!(line.split_whitespace().take(3).collect::<Vec<_>>(), ["TEE-M", "35", "35"]);
}

#[test]
fn a_broken_message_is_named() {
    let data = changed_data("stock", "1-two-sizes.jsonl", "\"line_no\":2,\"sku\":\"TEE-L\"", "\"line_no\":2");
    let run = Run::new(&["stock", "--data", data.path().to_str().unwrap()]);
    assert_eq!(run.status(), Some(2));
    assert!(run.stderr().contains("1-two-sizes.jsonl, line 2: missing field `sku`"), "{}", run.stderr());
}

#[test]
fn it_is_repeatable() {
    is_repeatable("stock");
}
