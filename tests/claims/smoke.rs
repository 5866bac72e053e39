//! One of each.

use idem_runtime::{Decision, Error, Outcome, Replay, TokenError, Why, idempotent};
use std::time::Duration;

struct Msg {
    no: String,
    amount: i64,
    token: String,
}

fn msg(no: &str, amount: i64) -> Msg {
    Msg { no: no.to_owned(), amount, token: String::new() }
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = msg.no, store = db, scope = "payload", payload = msg.amount)]
        async fn with_payload(db: &mut Conn, msg: &Msg) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }

        #[idempotent(key = msg.no, store = db, scope = "replay", replay(version = 2))]
        async fn with_replay(db: &mut Conn, msg: &Msg) -> Result<i64, sqlx::Error> {
            credit(db, "a", msg.amount).await?;
            Ok(msg.amount)
        }

        #[idempotent(key = msg.no, store = db, scope = "declines", declines)]
        async fn declining(db: &mut Conn, msg: &Msg) -> Result<Decision<()>, sqlx::Error> {
            credit(db, "a", msg.amount).await?;
            Ok(if msg.amount > 5 { Decision::Done(()) } else { Decision::retry("too little") })
        }

        #[idempotent(token = msg.token, store = db, scope = "form")]
        async fn with_token(db: &mut Conn, msg: &Msg) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }

        #[idempotent(guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status = 'NEW'", store = db)]
        async fn pay(db: &mut Conn, msg: &Msg) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }

        #[idempotent(
            guard = "INSERT INTO orders (order_no, account, status, amount) VALUES ({msg.no}, 'a', 'NEW', {msg.amount})",
            unique = "order_no", store = db, retry = 2
        )]
        async fn place(db: &mut Conn, msg: &Msg) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.amount).await
        }
    }

    async fn one_of_each(lab: Lab) {
        assert!(with_payload(&lab.store, &msg("1", 10)).await.unwrap().is_first());
        assert!(with_payload(&lab.store, &msg("1", 10)).await.unwrap().is_duplicate());
        let refused = with_payload(&lab.store, &msg("1", 20)).await.unwrap_err();
        assert!(matches!(refused, Error::PayloadMismatch(_)), "{refused}");

        assert_eq!(with_replay(&lab.store, &msg("1", 10)).await.unwrap(), Outcome::First(10));
        let Outcome::Duplicate(seen) = with_replay(&lab.store, &msg("1", 10)).await.unwrap() else { panic!() };
        assert_eq!(seen.result, Replay::Value(10));

        let Outcome::Ignored(ignored) = declining(&lab.store, &msg("1", 1)).await.unwrap() else { panic!() };
        assert_eq!(ignored.why, Why::Declined);
        assert!(declining(&lab.store, &msg("1", 10)).await.unwrap().is_first());

        let token = lab.store.tokens("form").issue(Duration::from_mins(1)).await.unwrap();
        let form = |token: &str| Msg { token: token.to_owned(), ..msg("1", 10) };
        assert!(with_token(&lab.store, &form(token.as_str())).await.unwrap().is_first());
        assert!(with_token(&lab.store, &form(token.as_str())).await.unwrap().is_duplicate());
        let other = lab.store.tokens("other").issue(Duration::from_mins(1)).await.unwrap();
        let refused = with_token(&lab.store, &form(other.as_str())).await.unwrap_err();
        assert!(matches!(refused, Error::Token(TokenError::Foreign { .. })), "{refused}");
        assert_eq!(lab.balance("a").await, 40);

        assert!(place(&lab.store, &msg("A1", 10)).await.unwrap().is_first());
        assert!(place(&lab.store, &msg("A1", 10)).await.unwrap().is_duplicate());
        assert!(pay(&lab.store, &msg("A1", 10)).await.unwrap().is_first());
        assert!(pay(&lab.store, &msg("A1", 10)).await.unwrap().is_ignored());
        assert_eq!(lab.balance("a").await, 60);
    }
}
