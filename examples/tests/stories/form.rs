//! The form story.

use crate::run::{Run, changed_data, fails_without_idem, is_repeatable};

#[tokio::test]
async fn a_page_places_one_order() {
    let run = Run::kept("form");
    let orders = "SELECT id, article, quantity, email FROM orders ORDER BY id";
    let placed = [
        "1 TEE-M 1 li@example.com",
        "2 MUG 2 wang@example.com",
        "3 MUG 2 wang@example.com",
        "4 CAP 4 zhao@example.com",
        "5 TEE-L 8 chen@example.com",
    ];
    assert_eq!(run.rows("with-idem.db", orders).await, placed);
    assert_eq!(run.rows("without-idem.db", "SELECT COUNT(*) FROM orders").await, ["12"]);
    let kept = "SELECT scope, CAST(result AS TEXT) FROM idem_records ORDER BY result";
    let kept = run.rows("with-idem.db", kept).await;
    assert_eq!(kept.len(), 5);
    assert!(kept[0].starts_with("order.submit ") && kept[0].ends_with("\n{\"order_no\":\"SO5001\"}"), "{}", kept[0]);
}

#[test]
fn the_acts_show_what_they_are_about() {
    let run = Run::new(&["form"]);
    let with = |what: &str| run.with_idem(&format!("submit      {what}")).remove(0);
    assert_eq!(run.with_idem("2 clicks"), ["1 first, 1 duplicate: SO5001"]);
    assert_eq!(run.without("2 clicks"), ["2 done: SO5001, SO5002"]);
    for (what, answer) in [
        ("a page", "first: SO5002"),
        ("back, and again", "duplicate: SO5002"),
        ("a new page", "first: SO5003"),
        ("no e-mail address", "failed: no e-mail address"),
        ("corrected", "first: SO5004"),
        ("and once more", "duplicate: SO5004"),
        ("after lunch", "failed: token expired"),
        ("a fresh page", "first: SO5005"),
        ("a made-up token", "failed: token not issued here"),
        ("something else", "failed: this is no token"),
        ("of the cancel form", "failed: token issued for something else"),
    ] {
        assert_eq!(with(what), answer, "{what}");
    }
}

#[test]
fn the_check_can_fail() {
    fails_without_idem("form");
}

#[test]
fn what_is_right_comes_from_the_data() {
    let data = changed_data("form", "2-back-button.form", "quantity=2", "quantity=3");
    let run = Run::new(&["form", "--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""));
    let line = run.stdout().lines().find(|line| line.starts_with("   pieces in them ")).unwrap();
    assert_eq!(line.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["19", "19"]);
}

#[test]
fn a_broken_form_is_named() {
    let data = changed_data("form", "4-too-slow.form", "quantity=8", "quantity=eight");
    let run = Run::new(&["form", "--data", data.path().to_str().unwrap()]);
    assert_eq!(run.status(), Some(2));
    assert!(run.stderr().contains("4-too-slow.form: invalid digit"), "{}", run.stderr());
}

#[test]
fn it_is_repeatable() {
    is_repeatable("form");
}
