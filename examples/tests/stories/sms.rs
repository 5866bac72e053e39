//! The SMS story.

use crate::run::{Run, changed_data, fails_without_idem};
use std::{collections::BTreeMap, fs};

/// How many SMS went to phones, by the provider's own log.
fn phones(run: &Run, side: &str) -> BTreeMap<String, usize> {
    let log = fs::read_to_string(run.left_behind()[0].join(format!("{side}-phones.log"))).unwrap();
    let mut counts = BTreeMap::new();
    for line in log.lines() {
        *counts.entry(line.split(' ').next().unwrap().to_owned()).or_insert(0) += 1;
    }
    counts
}

#[tokio::test]
async fn what_comes_to_the_phones_is_what_a_lease_promises() {
    let run = Run::kept("sms");
    let right = [("SO8001", 1), ("SO8002", 1), ("SO8003", 1), ("SO8004", 2), ("SO8005", 1), ("SO8006", 1)];
    let right: BTreeMap<String, usize> = right.map(|(order, count)| (order.to_owned(), count)).into();
    assert_eq!(phones(&run, "with-idem"), right);
    let without = phones(&run, "without-idem");
    for order in ["SO8001", "SO8002", "SO8003", "SO8004", "SO8005"] {
        assert!(without[order] > right[order], "{order}: {without:?}");
    }
    let leases =
        "SELECT action_key, attempts, fence FROM idem_records_leases WHERE done_at IS NOT NULL ORDER BY action_key";
    let done = [
        "SO8001:'shipped' 1 1",
        "SO8002:'shipped' 1 1",
        "SO8003:'shipped' 2 2",
        "SO8004:'shipped' 2 2",
        "SO8005:'shipped' 2 2",
        "SO8006:'shipped' 1 1",
    ];
    assert_eq!(run.rows("with-idem.db", leases).await, done);

    assert_eq!(run.with_idem("7 copies"), ["7 busy"]);
    assert_eq!(run.with_idem("again"), ["duplicate"]);
    assert_eq!(run.with_idem("offset 506"), ["first: sent, attempt 2"]);
    assert_eq!(run.with_idem("at once"), vec!["busy: another delivery is at it"; 2]);
    assert_eq!(run.with_idem("later"), ["first: sent, attempt 2", "first: provider knew it, attempt 2"]);
    assert_eq!(run.with_idem("once more"), ["duplicate", "duplicate"]);
    assert_eq!(run.with_idem("reconciled"), ["unfinished: on the phone true, settled true"]);
    assert_eq!(run.with_idem("and later"), ["duplicate"]);
}

#[test]
fn the_check_can_fail() {
    fails_without_idem("sms");
}

#[test]
fn the_provider_decides_whether_a_crash_doubles() {
    let data = changed_data("sms", "4-cut-off.jsonl", "\"plain\"", "\"keyed\"");
    let run = Run::new(&["sms", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    assert_eq!(run.with_idem("later"), vec!["first: provider knew it, attempt 2"; 2]);
}
