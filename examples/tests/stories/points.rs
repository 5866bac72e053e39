//! The points story.

use crate::run::{Run, changed_data, fails_without_idem, is_repeatable};

/// Worked out by hand, as in the data folder's README.
const RIGHT: [&str; 3] = ["M-7 170", "M-8 50", "M-9 20"];
const BALANCES: &str = "SELECT account, points FROM points_balance ORDER BY account";
const FLOW: &str = "SELECT account, SUM(points) FROM points_flow GROUP BY account ORDER BY account";

#[tokio::test]
async fn every_balance_is_the_sum_of_its_flow() {
    let run = Run::kept("points");
    assert_eq!(run.rows("with-idem.db", BALANCES).await, RIGHT);
    assert_eq!(run.rows("with-idem.db", FLOW).await, RIGHT);
    assert_eq!(run.rows("with-idem.db", "SELECT COUNT(*) FROM points_flow").await, ["16"], "facts");
    assert_eq!(run.rows("with-idem.db", "SELECT COUNT(*) FROM idem_records").await, ["0"], "the flow is the memory");
    let without = run.rows("without-idem.db", BALANCES).await;
    assert!(without.iter().zip(RIGHT).all(|(without, right)| without != right), "{without:?}");
    assert_ne!(run.rows("without-idem.db", FLOW).await, without);
}

#[test]
fn the_acts_show_what_they_are_about() {
    let run = Run::new(&["points"]);
    let with = |offset: u32| run.with_idem(&format!("offset {offset}")).remove(0);
    for first in [201, 202, 203, 204, 205, 231, 232, 235, 236] {
        assert!(with(first).starts_with("first: "), "{first}: {}", with(first));
    }
    for repeat in [206, 207, 208, 209, 233, 237] {
        assert_eq!(with(repeat), "duplicate", "{repeat}");
    }
    assert_eq!(run.with_idem("210 to 229"), ["10 first, 10 duplicate"]);
    assert_eq!(with(230), "failed: there is no account M-9");
    assert_eq!(with(234), "failed: not enough points");
}

#[test]
fn the_nightly_check_names_what_does_not_agree() {
    let run = Run::new(&["points"]);
    let named = |side: &str| {
        let lines = run.stdout().lines().skip_while(|line| !line.starts_with("The nightly check"));
        let line = lines.skip(1).find(|line| line.trim_start().starts_with(side)).unwrap();
        line.trim_start().strip_prefix(side).unwrap().trim().to_owned()
    };
    assert_eq!(named("with idem"), "none");
    assert_eq!(named("after a change by hand"), "M-7: balance 171, flow 170");
    assert_eq!(named("without"), "M-7: balance 150, flow 340; M-9: balance 0, flow -20");
}

#[test]
fn the_check_can_fail() {
    fails_without_idem("points");
}

#[test]
fn what_is_right_comes_from_the_data() {
    let data = changed_data("points", "1-redelivered.jsonl", "\"points\":120", "\"points\":121");
    let run = Run::new(&["points", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""));
    assert!(run.stdout().lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.starts_with(&["balance", "of", "M-7", "171", "171"])
    }));
}

#[test]
fn it_is_repeatable() {
    is_repeatable("points");
}
