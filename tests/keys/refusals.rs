//! What a key refuses at run time: before any SQL, the same on every database. Cases C01, C07.

use idem_runtime::{Advice, Error, Key, KeyError, idempotent};

struct Refund {
    order_no: String,
    refund_no: Option<String>,
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = msg.order_no + ":" + msg.refund_no?, store = db, scope = "refund")]
        async fn on_refund(db: &mut Conn, msg: &Refund) -> Result<(), sqlx::Error> {
            credit(db, "a", -1).await
        }
    }

    async fn a_missing_required_part_fails_for_good_and_leaves_nothing(lab: Lab) {
        for order_no in ["O1", "O2"] {
            let msg = Refund { order_no: order_no.to_owned(), refund_no: None };
            let refused = on_refund(&lab.store, &msg).await.unwrap_err();
            assert!(matches!(&refused, Error::Key(KeyError::Missing { part }) if part == "msg_refund_no"), "{refused}");
            assert!(!refused.is_retryable());
            assert_eq!(refused.advice(), Advice::DeadLetter);
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let msg = Refund { order_no: "O1".to_owned(), refund_no: Some("R1".to_owned()) };
        assert!(on_refund(&lab.store, &msg).await.unwrap().is_first());
        assert!(on_refund(&lab.store, &msg).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (-1, 1));
    }

    async fn a_blank_part_fails_for_good_and_leaves_nothing(lab: Lab) {
        for blank in ["", " ", "\t\n", "\u{3000}", "\u{feff}\u{200b}", "\u{3164}", "\u{200c}\u{ad}", "\u{2800}"] {
            let msg = Refund { order_no: blank.to_owned(), refund_no: Some("R1".to_owned()) };
            let refused = on_refund(&lab.store, &msg).await.unwrap_err();
            assert!(matches!(&refused, Error::Key(KeyError::Blank { part }) if part == "msg_order_no"), "{refused}");
            assert_eq!(refused.advice(), Advice::DeadLetter);
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
    }

    /// Whatever a key holds, each database stores it whole and tells it from every other.
    async fn the_verdict_does_not_depend_on_the_database(lab: Lab) {
        let long = |last: &str| format!("{}{last}", "订".repeat(85));
        let facts = [
            "Order-A1".to_owned(), "order-a1".to_owned(), "cafe".to_owned(), "café".to_owned(), "🍺".to_owned(), "🍣".to_owned(),
            "é".to_owned(), "e\u{301}".to_owned(), "a".to_owned(), "a ".to_owned(), "a\0".to_owned(), "'; DROP TABLE idem_records; --".to_owned(),
            "\\".to_owned(), "%".to_owned(), "%25".to_owned(), "x".repeat(255), "x".repeat(256), "x".repeat(10_000), long("a"), long("b"),
        ];
        for fact in &facts {
            let key = || Key::scope("facts").part(fact).delivery(&format!("d-{fact}")).record(fact).finish();
            assert!(lab.store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first(), "{fact:?}");
            assert!(lab.store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate(), "{fact:?}");
        }
        let effects = i64::try_from(facts.len()).unwrap();
        assert_eq!((lab.balance("a").await, lab.claims().await), (effects, effects));
    }
}

#[test]
fn a_key_of_literal_text_or_with_a_useless_scope_is_refused() {
    assert_eq!(Key::scope("s").text("PAID").finish(), Err(KeyError::NoPart));
    assert_eq!(Key::scope("s").finish(), Err(KeyError::NoPart));
    for scope in ["", "  ", "a\nb", &"s".repeat(256)] {
        let refused = Key::scope(scope.to_owned()).part("1").finish();
        assert!(matches!(refused, Err(KeyError::Scope { .. })), "{scope:?}");
    }
}

#[test]
fn a_part_that_cannot_be_written_is_no_part() {
    struct Torn;
    impl std::fmt::Display for Torn {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("A-1")?;
            Err(std::fmt::Error)
        }
    }
    impl idem_runtime::KeyPart for Torn {
        type Risk = idem_runtime::Stable;

        fn write_key(&self, out: &mut idem_runtime::KeyWriter<'_>) {
            out.display(self);
        }
    }
    assert_eq!(Key::scope("s").part(&Torn).finish(), Err(KeyError::Unwritten { part: "1".to_owned() }));
}

#[test]
fn the_same_action_is_the_same_key_whatever_the_delivery() {
    let key = |delivery: &str| Key::scope("s").part("A-1").delivery(delivery).record(delivery).finish().unwrap();
    assert_eq!(key("d-1"), key("d-2"));
}
