//! What goes together in one handler, goes together in one unit.

use idem_runtime::{Decision, Error, Outcome, Replay, TokenError, Unavailable, Why, idempotent};
use idem_tests::logs::Listener;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

struct Order {
    token: String,
    no: &'static str,
    amount: i64,
    note: &'static str,
}

impl Order {
    fn of(no: &'static str, amount: i64) -> Self {
        Self { token: String::new(), no, amount, note: "" }
    }
}

idem_tests::on_every_database! {
    given {
        /// A form that places an order once, and answers a double click with the same receipt.
        #[idempotent(
            token = form.token, payload = form.amount + ":" + form.note,
            guard = "INSERT INTO orders (order_no, account, status, amount) VALUES ({form.no}, 'a', 'NEW', {form.amount})",
            unique = "order_no", replay, store = db, scope = "claims.combined.form"
        )]
        async fn place(db: &mut Conn, form: &Order) -> Result<String, sqlx::Error> {
            credit(db, "a", form.amount).await?;
            Ok(format!("order {}", form.no))
        }

        /// All that a key may have with it.
        #[idempotent(
            key = msg.no, payload = msg.amount,
            guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status = 'NEW'",
            replay(version = 2, limit = 1000), declines, retry = 2, delivery = msg.note, record = msg.no,
            store = db, scope = "claims.combined.pay"
        )]
        async fn pay(db: &mut Conn, msg: &Order, tries: &AtomicUsize) -> Result<Decision<Option<i64>>, String> {
            credit(db, "b", msg.amount).await.map_err(|error| error.to_string())?;
            match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Err("not yet".to_owned()),
                1 => Ok(Decision::retry("the account is locked")),
                2 => Ok(Decision::Done(None)),
                _ => Err("too often".to_owned()),
            }
        }

        async fn token(lab: &Lab) -> String {
            lab.store.tokens("claims.combined.form").issue(Duration::from_mins(1)).await.unwrap().into()
        }

        async fn orders(lab: &Lab, status: &str) -> i64 {
            lab.number(&format!("SELECT count(*) FROM orders WHERE status = '{status}'")).await
        }
    }

    async fn a_form_with_token_payload_guard_and_receipt(lab: Lab) {
        let form = Order { token: token(&lab).await, ..Order::of("1", 10) };
        assert_eq!(place(&lab.store, &form).await.unwrap(), Outcome::First("order 1".to_owned()));
        let Outcome::Duplicate(seen) = place(&lab.store, &form).await.unwrap() else { panic!("no repeat") };
        assert_eq!(seen.result, Replay::Value("order 1".to_owned()));
        // The same token with other amounts: somebody changed the form.
        let other = place(&lab.store, &Order { amount: 11, ..form }).await;
        assert!(matches!(other, Err(Error::PayloadMismatch(_))), "{other:?}");
        // Another form for the same order: the table says that it is done, and has no receipt. Its token is not burnt.
        let second = Order { token: token(&lab).await, ..Order::of("1", 10) };
        for _ in 0..2 {
            let Outcome::Duplicate(seen) = place(&lab.store, &second).await.unwrap() else { panic!("no repeat") };
            assert_eq!((seen.first_at, seen.result), (None, Replay::Unavailable(Unavailable::NotKept)));
        }
        let reused = Order { no: "2", ..second };
        assert_eq!(place(&lab.store, &reused).await.unwrap(), Outcome::First("order 2".to_owned()));
        // A guard that fails gives the token back, too.
        let third = Order { token: token(&lab).await, ..Order::of("3", -1) };
        assert!(matches!(place(&lab.store, &third).await, Err(Error::Guard(_))));
        let corrected = Order { amount: 1, ..third };
        assert!(place(&lab.store, &corrected).await.unwrap().is_first());
        let forged = Order { token: "0".repeat(64), ..Order::of("4", 1) };
        let refused = place(&lab.store, &forged).await;
        assert!(matches!(refused, Err(Error::Token(TokenError::Unknown))), "{refused:?}");
        assert_eq!((lab.rows("orders").await, lab.claims().await, lab.balance("a").await), (3, 3, 21));
    }

    async fn a_key_with_all_that_goes_with_it(lab: Lab) {
        let tries = AtomicUsize::new(0);
        let msg = Order { note: "d-1", ..Order::of("1", 10) };
        // No order yet: the guard refuses, and nothing is remembered, not even the payload.
        let early = pay(&lab.store, &Order { amount: 99, ..Order::of("1", 0) }, &tries).await.unwrap();
        assert!(matches!(&early, Outcome::Ignored(ignored) if ignored.why != Why::Declined), "{early:?}");
        let mut db = lab.pool.acquire().await.unwrap();
        raw(&mut db, "INSERT INTO orders VALUES ('1', 'a', 'NEW', 10)").await.unwrap();
        drop(db);
        // The body fails, is repeated, and declines: all is given back, and the order may be paid later.
        let listener = Listener::start();
        let declined = pay(&lab.store, &msg, &tries).await.unwrap();
        assert!(matches!(&declined, Outcome::Ignored(ignored) if ignored.why == Why::Declined), "{declined:?}");
        assert_eq!(listener.outcomes().len(), 1);
        assert_eq!((orders(&lab, "NEW").await, lab.claims().await, lab.balance("b").await), (1, 0, 0));
        // It is done, with a result that looks like nothing.
        assert_eq!(pay(&lab.store, &msg, &tries).await.unwrap(), Outcome::First(None));
        let Outcome::Duplicate(seen) = pay(&lab.store, &msg, &tries).await.unwrap() else { panic!("no repeat") };
        assert_eq!((seen.result, seen.delivery_id.as_deref()), (Replay::Value(None), Some("d-1")));
        let other = pay(&lab.store, &Order { amount: 11, ..msg }, &tries).await;
        assert!(matches!(other, Err(Error::PayloadMismatch(_))), "{other:?}");
        assert_eq!((tries.load(Ordering::SeqCst), lab.balance("b").await, orders(&lab, "PAID").await), (3, 10, 1));
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE message IS NOT NULL").await, 1);
    }
}
