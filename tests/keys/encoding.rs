//! The text of a key: different values never give one text, and it never changes. Cases C03, C05, C07.

use idem_runtime::{Key, KeyError, KeyPart};
use proptest::prelude::*;
use std::{borrow::Cow, num::NonZeroU64, sync::Arc};

fn text(parts: &[&str], separator: &str) -> Result<String, KeyError> {
    let mut key = Key::scope("s");
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            key = key.text(separator);
        }
        key = key.part(*part);
    }
    key.finish().map(|key| key.text().to_owned())
}

/// Stored keys are compared with keys of later versions: a change here is a change of everybody's identities.
#[test]
fn golden_vectors() {
    let build = |key: idem_runtime::KeyBuilder| key.finish().unwrap().text().to_owned();
    let vectors = [
        (build(Key::scope("s").part("2026113022001").text(":").part("TRADE_SUCCESS")), "2026113022001:TRADE_SUCCESS"),
        (build(Key::scope("s").part("a:b").text(":").part("c")), "a%3Ab:c"),
        (build(Key::scope("s").part("a").text(":").part("b:c")), "a:b%3Ac"),
        (build(Key::scope("s").part("50%").text("/").part("a b")), "50%25/a%20b"),
        (build(Key::scope("s").part("ord-1_x.y")), "ord-1_x.y"),
        (build(Key::scope("s").text("REFUND:").part("R1")), "'REFUND':R1"),
        (build(Key::scope("s").part("R1").text("-").part("2")), "R1'-'2"),
        (build(Key::scope("s").part("R1").text("it's").part("2")), "R1'it''s'2"),
        (build(Key::scope("s").part("1").part("23")), "1:23"),
        (build(Key::scope("s").part("12").part("3")), "12:3"),
        (build(Key::scope("s").part("订单-7").text("#").part("é")), "订单-7#é"),
        (build(Key::scope("s").part("a\0b\n")), "a%00b%0A"),
        (build(Key::scope("s").part("a\u{a0}\u{200b}\u{202e}b")), "a%C2%A0%E2%80%8B%E2%80%AEb"),
        (build(Key::scope("s").part("~'*")), "%7E%27%2A"),
        (build(Key::scope("s").part(&-7_i64).text(":").part(&u128::MAX)), "-7:340282366920938463463374607431768211455"),
        (build(Key::scope("s").part(&true).text(":").part(&'x').text(":").part(&NonZeroU64::MIN)), "true:x:1"),
    ];
    for (number, (text, golden)) in vectors.iter().enumerate() {
        assert_eq!(text, golden, "vector {number}");
    }
    let long = build(Key::scope("s").part(&"订".repeat(100)));
    assert_eq!(
        long,
        format!("{}~f1defd624010a713747e34904745e7db304a222a4f3d4d76d06ad95a52cfd6c0", "订".repeat(63)),
        "the hash of a long key"
    );
}

/// With a written reason an instant may be a part. Its text holds all of it.
#[test]
fn instants_keep_their_nanoseconds() {
    struct At;
    impl<T: ?Sized> idem_runtime::AllowsTime<T> for At {}
    let text = |key: idem_runtime::KeyBuilder| key.finish().unwrap().text().to_owned();
    let chrono = |seconds, nanos| chrono::DateTime::from_timestamp(seconds, nanos).unwrap();
    for (seconds, nanos, golden) in [
        (1, 1000, "1.000001000"),
        (1, 1001, "1.000001001"),
        (59, 1_000_000_000, "59.1000000000"),
        (60, 0, "60.000000000"),
    ] {
        assert_eq!(text(Key::scope("s").named_part(At, &chrono(seconds, nanos))), golden);
        assert_eq!(text(Key::scope("s").named_part(At, &chrono(seconds, nanos).naive_utc())), golden);
    }
    assert_eq!(text(Key::scope("s").named_part(At, &std::time::UNIX_EPOCH)), "0");
}

#[test]
fn pointers_and_newtypes_write_what_they_hold() {
    #[derive(KeyPart)]
    struct OrderNo(String);
    #[derive(KeyPart)]
    struct Wrapped<T> {
        inner: T,
    }
    #[derive(KeyPart)]
    enum Status {
        Paid,
        #[key_part(text = "CLOSED")]
        Closed,
    }
    let order = OrderNo("A-1".to_owned());
    let build = |key: idem_runtime::KeyBuilder| key.finish().unwrap().text().to_owned();
    assert_eq!(build(Key::scope("s").part(&order)), "A-1");
    assert_eq!(build(Key::scope("s").part(&Arc::new(Box::new(&order)))), "A-1");
    assert_eq!(build(Key::scope("s").part(&Wrapped { inner: Cow::Borrowed("A-1") })), "A-1");
    assert_eq!(build(Key::scope("s").part(&Status::Paid).text(":").part(&Status::Closed)), "Paid:CLOSED");
}

#[test]
fn what_collations_merge_stays_apart() {
    // Each of these pairs is one key to some collation of MySQL, MariaDB or PostgreSQL.
    for (one, other) in [
        ("Order-A1", "order-a1"),
        ("cafe", "café"),
        ("🍺", "🍣"),
        ("é", "e\u{301}"),
        ("straße", "strasse"),
        ("ｏｒｄ", "ord"),
        ("a", "a "),
        ("a", "a\0"),
        ("i", "İ"),
        ("007", "7"),
    ] {
        assert_ne!(text(&[one], ":").unwrap(), text(&[other], ":").unwrap(), "{one:?} and {other:?}");
    }
}

#[test]
fn a_key_never_grows_over_255_bytes_and_is_never_just_cut() {
    for length in [255, 256, 300, 10_000] {
        let one = text(&[&"x".repeat(length)], ":").unwrap();
        let other = text(&[&format!("{}y", "x".repeat(length - 1))], ":").unwrap();
        assert!(one.len() <= 255 && other.len() <= 255);
        assert_ne!(one, other, "length {length}");
        assert_eq!(one.len() == length, length <= 255, "only a key that fits stands whole");
    }
    // The hashed form cannot be had by a value that looks like it.
    let hashed = text(&[&"x".repeat(300)], ":").unwrap();
    assert_ne!(text(&[&hashed], ":").unwrap(), hashed);
    assert!(hashed.starts_with(&"x".repeat(150)), "the beginning stays readable: {hashed}");
}

/// Values with what separates, escapes and quotes, in all mixtures.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        // So few that lists which only differ in where a boundary is come up all the time.
        6 => "[a:]{1,3}".prop_map(|text: String| text),
        2 => "[ab:'%~/ -]{1,6}".prop_map(|text: String| text),
        1 => "\\PC{1,12}".prop_map(|text: String| text),
        1 => proptest::collection::vec(any::<char>(), 1..300).prop_map(|chars| chars.into_iter().collect()),
    ]
}

fn separator() -> impl Strategy<Value = String> {
    prop_oneof![Just(":".to_owned()), Just("a".to_owned()), Just("-".to_owned()), "[ab:'%~#]{0,3}".prop_map(|s| s)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Whatever the values hold, and whatever literal text stands between them in either key.
    #[test]
    fn different_values_never_give_one_text(
        one in proptest::collection::vec(value(), 1..5),
        other in proptest::collection::vec(value(), 1..5),
        separators in (separator(), separator()),
    ) {
        let parts = |values: &[String]| values.iter().map(String::clone).collect::<Vec<_>>();
        let (first, second) = (parts(&one), parts(&other));
        let text_of = |values: &[String], separator: &str| {
            text(&values.iter().map(String::as_str).collect::<Vec<_>>(), separator)
        };
        if let (Ok(a), Ok(b)) = (text_of(&first, &separators.0), text_of(&second, &separators.1)) {
            prop_assert_eq!(one == other && separators.0 == separators.1, a == b && separators.0 == separators.1);
            if one != other {
                prop_assert_ne!(a, b);
            }
        }
    }

    /// A boundary that moves is another key: the values here are cut from one text at different places.
    #[test]
    fn moving_a_boundary_changes_the_text(whole in "[ab:'%-]{2,8}", cuts in (1_usize..7, 1_usize..7), separator in separator()) {
        let (a, b) = (cuts.0.min(whole.len() - 1), cuts.1.min(whole.len() - 1));
        let at = |cut: usize| text(&[&whole[..cut], &whole[cut..]], &separator);
        if let (Ok(one), Ok(other)) = (at(a), at(b)) {
            prop_assert_eq!(a == b, one == other);
        }
    }

    /// What is stored can be logged: no control characters, nothing invisible, never over 255 bytes.
    #[test]
    fn a_text_is_printable_and_fits(values in proptest::collection::vec(value(), 1..5)) {
        if let Ok(text) = text(&values.iter().map(String::as_str).collect::<Vec<_>>(), ":") {
            prop_assert!(text.len() <= 255);
            prop_assert!(!text.chars().any(|c| c.is_control() || c.is_whitespace()));
        }
    }
}
